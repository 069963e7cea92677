"""Where trajectories part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rolltrace.errors import ConfigError
from rolltrace.query import Op, OpTokens, Score, Trajectory, compare
from rolltrace.query.comparison import ToolCall


def trajectory(*turns: Any, scores: dict[str, float] | None = None, tokens: bool = True, **fields: Any) -> Trajectory:
    """A turn is (reply, tool call, ...); a tool call is (name, argument, result)."""
    ops, ids = [], []
    for reply, *tools in turns:
        number = len(ops) + 1
        ops.append(Op(number, "generate", "llm", "ok", number, number, {}, reply))
        if tokens:
            ids.append(OpTokens(number, "generate", None, [ord(letter) for letter in reply], None, None))
        for name, argument, result in tools:
            number = len(ops) + 1
            ops.append(Op(number, name, "tool", "ok", number, number, {"argument": argument}, result))
    plain: dict[str, Any] = {
        "trajectory_id": "a" * 32, "project": "p", "experiment": "e", "step": 1, "sample_index": 3, "rollout_n": 0,
        "validate": False, "name": "n", "status": "ok", "error": None, "start_ns": 0, "end_ns": 1, "duration_s": 1e-9,
        "turns": len(turns), "tool_calls": 0, "tool_errors": 0, "prompt_tokens": None, "response_tokens": None,
        "reward": None, "policy_version_min": None, "policy_version_max": None, "flags": [], "tags": {}, "worker": "w",
    }  # fmt: skip
    rows = [Score(name, value) for name, value in (scores or {}).items()]
    return Trajectory(**{**plain, **fields}, ops=ops, tokens=ids, scores=rows)


def test_identical_ones_part_nowhere() -> None:
    turns = ("abc", ("search", "x", "found")), ("done",)
    result = compare([trajectory(*turns, scores={"r": float("nan")}) for _ in range(3)])
    assert result.identical
    assert (result.first_diverging_turn, result.first_diverging_token, result.first_diverging_tool_call) == (None,) * 3
    assert (result.attributes, result.scores, [row.same for row in result.turns]) == ({}, {}, [True, True])


def test_the_first_differing_token_has_both_places() -> None:
    result = compare([trajectory(("abc",), ("xyz",)), trajectory(("abc",), ("xqz",))])
    token = result.first_diverging_token
    assert result.first_diverging_turn == 1
    assert token is not None
    assert (token.unit, token.index, token.turn, token.index_in_turn, token.values) == (
        "token",
        4,
        1,
        1,
        [ord("y"), ord("q")],
    )


def test_without_tokens_the_text_is_compared() -> None:
    token = compare([trajectory(("abc",)), trajectory(("abd",), tokens=False)]).first_diverging_token
    assert token is not None
    assert (token.unit, token.index, token.values) == ("character", 2, ["c", "d"])


def test_a_reply_that_goes_on_differs_where_the_other_ends() -> None:
    token = compare([trajectory(("ab",)), trajectory(("abc",))]).first_diverging_token
    assert token is not None
    assert (token.index, token.values) == (2, [None, ord("c")])


def test_the_first_differing_tool_call_is_by_name_or_arguments() -> None:
    same = ("search", "x", "found")
    result = compare([
        trajectory(("a", same, ("open", 1, "p"))),
        trajectory(("a", ("search", "x", "other"), ("open", 2, "p"))),
        trajectory(("a", same)),
    ])  # fmt: skip
    call = result.first_diverging_tool_call
    assert call is not None
    assert (call.turn, call.index_in_turn) == (0, 1)
    assert call.calls == [ToolCall("open", {"argument": 1}), ToolCall("open", {"argument": 2}), None]
    assert result.first_diverging_token is None
    assert result.first_diverging_turn == 0


def test_another_result_of_a_tool_makes_the_turn_differ() -> None:
    result = compare([trajectory(("a", ("t", 1, "x"))), trajectory(("a", ("t", 1, "y")))])
    assert (result.first_diverging_turn, result.first_diverging_tool_call) == (0, None)


def test_different_lengths_are_aligned_with_none() -> None:
    result = compare([trajectory(("a",)), trajectory(("a",), ("b",)), trajectory()])
    assert [[turn is not None for turn in row.turns] for row in result.turns] == [
        [True, True, False],
        [False, True, False],
    ]
    assert result.first_diverging_turn == 0
    assert compare([trajectory(), trajectory()]).identical


def test_differing_attributes_and_scores() -> None:
    result = compare([
        trajectory(rollout_n=0, tags={"a": 1}, scores={"reward": 1.0, "format": 1.0}),
        trajectory(rollout_n=1, tags={"a": 2}, scores={"reward": 1.0}),
    ])  # fmt: skip
    assert result.attributes == {"rollout_n": [0, 1], "tags": [{"a": 1}, {"a": 2}]}
    assert result.scores == {"format": [1.0, None]}


def test_one_is_not_enough() -> None:
    with pytest.raises(ConfigError, match="two or more trajectories"):
        compare([trajectory()])


def test_diverging_tokens_are_told_with_their_text() -> None:
    def told(reply: str) -> Trajectory:
        made = trajectory((reply,))
        (tokens,) = made.tokens
        return replace(made, tokens=[tokens._replace(response_text=reply, piece_chars=[1] * len(reply))])

    token = compare([told("abc"), told("aXc"), trajectory(("aYc",)), told("a")]).first_diverging_token
    assert token is not None
    assert (token.values, token.texts) == ([ord("b"), ord("X"), ord("Y"), None], ["b", "X", None, None])


def test_replies_of_nothing_but_tokens_are_compared_by_their_text() -> None:
    ops = [Op(1, "generate", "llm", "ok", 1, 1, {}, {"token_ids": [1]}, response_text=text) for text in ("ab", "ac")]
    first, second = (replace(trajectory(tokens=False), ops=[op]) for op in ops)
    assert [turn and turn.text for turn in compare([first, second]).turns[0].turns] == ["ab", "ac"]


def test_each_one_parts_from_the_best_in_its_own_place() -> None:
    best = trajectory(("abc",), ("xyz", ("search", "q", "found")), ("end",), reward=2.0)
    early = trajectory(("aXc",), ("xyz",), reward=1.0)
    late = trajectory(("abc",), ("xyz", ("search", "q", "nothing")), ("end",), reward=float("nan"))
    same = trajectory(("abc",), ("xyz", ("search", "q", "found")), ("end",))
    result = compare([early, late, best, same])
    assert result.best == 2
    assert [parting.turn for parting in result.partings] == [0, 1, None, None]
    token = result.partings[0].token
    assert token is not None
    assert (token.turn, token.index_in_turn, token.values) == (0, 1, [ord("b"), ord("X")])
    assert [parting.token for parting in result.partings[1:]] == [None, None, None]


def test_without_rewards_the_first_is_the_best() -> None:
    assert compare([trajectory(("a",)), trajectory(("b",), reward=float("nan"))]).best == 0


def test_labels_are_compared_like_numbers() -> None:
    one, other = trajectory(("a",)), trajectory(("a",))
    one.scores.append(Score("fate", None, label="trained"))
    other.scores.append(Score("fate", None, label="filtered"))
    assert compare([one, other]).scores == {"fate": ["trained", "filtered"]}
