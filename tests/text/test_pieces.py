"""The text of each token, with nothing but `decode`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rolltrace.record.growing import Growing, common_prefix
from rolltrace.text import Pieces

TEXT = "the quick fox: 你好 🎉, again and again. " * 5


@pytest.fixture(params=["byte_level", "metaspace", "unigram", "word_piece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return request.getfixturevalue(str(request.param))


def decode_of(tokenizer: Tokenizer) -> Callable[[list[int]], str]:
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))


def test_pieces_put_together_are_the_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXT).ids
    pieces = Pieces(decode_of(tokenizer))
    for _ in range(2):  # the second time, most pieces are known
        found = pieces.rest(ids, 0)
        assert found.text == tokenizer.decode(ids, skip_special_tokens=False)
        assert sum(found.piece_chars) == len(found.text)
        assert found.loose_chars == 0


def test_a_long_text_that_is_spelt_in_bytes_is_whole(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("什么是强化学习" * 30 + " end").ids
    pieces = Pieces(decode_of(tokenizer))
    for _ in range(2):
        assert pieces.rest(ids, 0).text == tokenizer.decode(ids, skip_special_tokens=False)


def test_a_sequence_that_grows_token_by_token_ends_as_the_whole(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("quick fox 你好 🎉 dog").ids
    whole = tokenizer.decode(ids, skip_special_tokens=False)
    growing: Growing[list[int]] = Growing(1000, common_prefix)
    pieces = Pieces(decode_of(tokenizer))
    for end in range(1, len(ids) + 1):
        found = growing.grow("t", ids[:end], pieces.rest)
        assert whole.startswith(found.text.rstrip("\ufffd"))
        assert sum(found.piece_chars) == len(found.text)
    assert found.text == whole
    assert growing.decoded_tokens < 3 * len(ids)


def test_a_token_inside_a_character_has_no_text_of_its_own(metaspace: Tokenizer) -> None:
    ids = metaspace.encode("你").ids
    found = Pieces(decode_of(metaspace)).rest(ids, 0)
    assert list(found.piece_chars)[-3:] == [0, 0, 1]


def test_bytes_that_no_character_follows_are_loose(metaspace: Tokenizer) -> None:
    ids = metaspace.encode("quick你").ids[:-1]
    found = Pieces(decode_of(metaspace)).rest(ids, 0)
    assert found.text.startswith("quick\ufffd")
    assert found.loose_chars == found.text.count("\ufffd") == found.piece_chars[-1]


def test_known_tokens_are_decoded_many_at_a_time(metaspace: Tokenizer) -> None:
    calls = []

    def decode(ids: list[int]) -> str:
        calls.append(len(ids))
        return str(metaspace.decode(ids, skip_special_tokens=False))

    ids = metaspace.encode("the quick brown fox jumps over " * 200).ids
    pieces = Pieces(decode)
    pieces.rest(ids, 0)
    calls.clear()
    pieces.rest(ids, 0)
    assert len(calls) < len(ids) / 10


def test_tokens_without_any_text_do_not_pile_up() -> None:
    longest = 0

    def decode(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return "".join("\ufffd" if each else "x" for each in ids)

    found = Pieces(decode).rest([1] * 500, 0)
    assert found.text == "\ufffd" * 500
    assert longest < 100


@given(ids=st.lists(st.integers(0, 400), max_size=80))
def test_any_tokens_have_as_many_characters_as_their_pieces(metaspace: Tokenizer, ids: list[int]) -> None:
    found = Pieces(decode_of(metaspace)).rest(ids, 0)
    assert len(found.piece_chars) == len(ids)
    assert sum(found.piece_chars) == len(found.text)
