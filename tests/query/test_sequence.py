"""One sequence from the tokens of many model calls."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from rolltrace.query import Store, token_sequence
from rolltrace.query.sequence import PackedCall, sequence_of


def packed(numbers: Sequence[int]) -> bytes:
    return array("i", numbers).tobytes()


def call(op_id: int, prompt: str, response: str, *, text: bool = True, version: int = 0) -> PackedCall:
    """A call whose tokens are letters."""
    return PackedCall(
        str(op_id), version, packed([ord(each) for each in prompt]), packed([ord(each) for each in response]),
        packed([1] * len(prompt + response)) if text else b"", prompt if text else None, response if text else None,
        [-float(op_id)] * len(response), [1] * len(response),
    )  # fmt: skip


def test_each_prompt_adds_what_it_has_more() -> None:
    found = sequence_of([call(1, "ask", "AB"), call(2, "askAB+", "C"), call(3, "askAB+C-", "D")])
    assert found.text == "askAB+C-D"
    assert [chr(each) for each in found.ids] == list(found.text)
    kinds = [(each.kind, found.text[each.start : each.end], each.turn) for each in found.segments]
    assert kinds == [("prompt", "ask", 0), ("response", "AB", 0), ("prompt", "+", 1), ("response", "C", 1),
                     ("prompt", "-", 2), ("response", "D", 2)]  # fmt: skip
    assert found.breaks == []
    assert found.logprobs == [None, None, None, -1.0, -1.0, None, -2.0, None, -3.0]
    assert (found.responses, found.trained) == (4, 4)


def test_a_prompt_that_was_tokenised_anew_is_a_break_with_both_versions() -> None:
    found = sequence_of([call(1, "ask", "ABC"), call(2, "askAXY+", "D")])
    (only,) = found.breaks
    assert found.text == "askABCXY+D"  # what was produced stays, the new version follows
    assert (only.at, only.turn, only.op_id, only.first_difference) == (6, 1, "2", 4)
    assert (only.before_text, only.after_text) == ("BC", "XY+")
    assert (only.before_total, only.after_total) == (2, 3)


def test_a_prompt_that_shares_nothing_begins_anew() -> None:
    found = sequence_of([call(1, "ask", "A"), call(2, "other", "B")])
    assert found.text == "askAotherB"
    assert found.breaks[0].first_difference == 0


def test_the_same_prompt_again_adds_only_its_response() -> None:
    found = sequence_of([call(1, "ask", "A"), call(2, "ask", "B")])
    assert found.text == "askAB"
    assert [each.after_total for each in found.breaks] == [0]


def test_tokens_without_text_take_no_characters() -> None:
    found = sequence_of([call(1, "ask", "A"), call(2, "askA+", "B", text=False)])
    assert found.text == "askA"
    assert found.piece_chars == [1, 1, 1, 1, 0, 0]
    assert [each.has_text for each in found.segments] == [True, True, False, False]


def test_a_character_of_several_tokens_belongs_to_the_last_of_them() -> None:
    call = PackedCall("1", None, packed([1]), packed([2, 3, 4]), packed([1, 0, 1, 1]), "a", "é🎉", None, None)
    found = sequence_of([call])
    assert (found.text, found.piece_chars) == ("aé🎉", [1, 0, 1, 1])


def test_missing_and_short_columns_are_filled_with_none() -> None:
    found = sequence_of([PackedCall("1", None, b"", packed([5, 6, 7]), b"", None, None, [-1.0], [1, 0])])
    assert found.logprobs == [-1.0, None, None]
    assert found.mask == [1, 0, None]
    assert found.trained == 2


def test_the_minimap_keeps_the_least_likely_of_each_stretch() -> None:
    found = sequence_of([call(1, "a" * 10, "b" * 10)])
    found.logprobs[15] = -9.0
    assert found.minimap(4) == [None, None, -1.0, -9.0]
    assert len(found.minimap(1000)) == 20
    assert found.least_likely(1) == [15]
    assert sequence_of([]).minimap(10) == []


def test_a_finding_has_a_place_in_the_sequence() -> None:
    found = sequence_of([call(1, "ask", "ABCD"), call(2, "askX", "EF")])
    assert found.place_of("prefix_break", "2", {}) == 7
    assert found.place_of("repetition", "1", {"unit": "token", "start": 2}) == 5
    assert found.place_of("cut_by_length", "1", {}) == 6
    assert found.place_of("tool_error", "99", {}) is None


def test_a_trajectory_gives_its_sequence(demo: Store) -> None:
    row = demo.trajectories(where="tag.oddity = 'prefix_break'").rows()[0]
    found = token_sequence(demo.trajectory(row["trajectory_id"]))
    assert len(found.breaks) == 1
    assert found.responses == row["response_tokens"]
    assert len(found.text) == sum(found.piece_chars)
