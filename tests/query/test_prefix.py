"""The first token at which a prompt leaves the turn before it."""

from __future__ import annotations

import pytest

from rolltrace.query.events import Finding
from rolltrace.query.op import OpTokens, first_difference
from rolltrace.query.trajectory import explain_break


@pytest.mark.parametrize(
    ("before", "prompt", "index"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 2, 3, 4], None),
        ([], [1], None),
        ([1, 2, 3], [9, 2, 3], 0),
        ([1, 2, 3], [1, 2, 9, 4], 2),
        ([1, 2, 3], [1, 2], 2),
        ([1], [], 0),
    ],
)
def test_the_first_difference(before: list[int], prompt: list[int], index: int | None) -> None:
    assert first_difference(before, prompt) == index


def tokens(op_id: int, prompt: list[int] | None, response: list[int] | None) -> OpTokens:
    return OpTokens(op_id, "generate", prompt, response, None, None)


def test_a_prefix_break_is_explained_from_the_tokens_of_both_turns() -> None:
    finding = Finding("prefix_break", 2, 0, {"previous_op_id": 1, "prompt_tokens": 3})
    both = {1: tokens(1, [5], [6, 7]), 2: tokens(2, [5, 6, 8], [9])}
    assert explain_break(finding, both.get).detail == {"previous_op_id": 1, "prompt_tokens": 3, "first_difference": 2}
    assert "first_difference" not in finding.detail, "the finding itself stays as it was"


@pytest.mark.parametrize("there", [{}, {2: tokens(2, [5], [9])}, {1: tokens(1, [5], [6]), 2: tokens(2, None, [9])}])
def test_without_the_tokens_it_stays_as_it_is(there: dict[int, OpTokens]) -> None:
    finding = Finding("prefix_break", 2, 0, {"previous_op_id": 1})
    assert explain_break(finding, there.get) == finding


@pytest.mark.parametrize("detail", [None, {"error": "x"}])
def test_other_findings_stay_as_they_are(detail: dict[str, str] | None) -> None:
    finding = Finding("tool_error", 2, 0, detail)
    assert explain_break(finding, {2: tokens(2, [1], [2])}.get) == finding
