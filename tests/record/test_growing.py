"""What was decoded before is not decoded again."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from rolltrace.record.growing import Growing, Rest, common_prefix


def letters(ids: list[int], start: int) -> Rest:
    """A tokenizer whose every token is a letter."""
    text = "".join(map(chr, ids[start:]))
    return Rest(text, array("i", [1] * len(text)), 0)


def ids_of(text: str) -> list[int]:
    return list(map(ord, text))


def test_only_what_is_new_is_decoded() -> None:
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    assert growing.grow("t", ids_of("once upon"), letters).text == "once upon"
    assert growing.grow("t", ids_of("once upon a time"), letters).text == "once upon a time"
    assert growing.decoded_tokens == len("once upon a time")


def test_the_same_again_costs_nothing() -> None:
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    first = growing.grow("t", ids_of("once"), letters)
    assert growing.grow("t", ids_of("once"), letters) is first
    assert growing.decoded_tokens == 4


def test_history_that_was_rewritten_costs_what_comes_after_the_change() -> None:
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    growing.grow("t", ids_of("x" * 90 + "old end"), letters)
    assert growing.grow("t", ids_of("x" * 90 + "new"), letters).text == "x" * 90 + "new"
    assert growing.decoded_tokens == 97 + 3


def test_sequences_that_take_turns_are_all_remembered() -> None:
    growing: Growing[list[int]] = Growing(10_000, common_prefix)
    for turn in range(1, 20):
        for start in "abc":
            growing.grow("t", ids_of(start + "x" * 10 * turn), letters)
    assert growing.decoded_tokens == 3 * 191


def test_trajectories_and_tokenizers_do_not_mix() -> None:
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    growing.grow(("one", b"t"), ids_of("once"), lambda ids, start: Rest("ONCE", array("i", [1] * 4), 0))
    assert growing.grow(("two", b"t"), ids_of("once"), letters).text == "once"


def test_the_least_recently_used_is_forgotten_when_there_is_too_much() -> None:
    growing: Growing[list[int]] = Growing(250, common_prefix)
    for name in ("a", "b", "a", "c"):
        growing.grow(name, ids_of(name * 100), letters)
    assert growing.decoded_tokens == 300
    growing.grow("a", ids_of("a" * 100), letters)
    assert growing.decoded_tokens == 300
    growing.grow("b", ids_of("b" * 100), letters)
    assert growing.decoded_tokens == 400


def test_a_sequence_larger_than_the_memory_is_decoded_all_the_same() -> None:
    growing: Growing[list[int]] = Growing(10, common_prefix)
    assert growing.grow("t", ids_of("x" * 50), letters).text == "x" * 50


def test_a_decoder_that_raises_leaves_everything_in_order() -> None:
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    growing.grow("t", ids_of("once"), letters)
    try:
        growing.grow("t", ids_of("once more"), lambda ids, start: letters(ids, 1 // 0))
    except ZeroDivisionError:
        pass
    assert growing.grow("t", ids_of("once more"), letters).text == "once more"


@given(st.lists(st.integers(0, 2), max_size=20), st.lists(st.integers(0, 2), max_size=20))
def test_the_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    shared = common_prefix(a, b)
    assert a[:shared] == b[:shared]
    assert a[shared : shared + 1] != b[shared : shared + 1] or shared == min(len(a), len(b))
