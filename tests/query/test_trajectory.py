"""One trajectory, as it was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import OpTokens, Trajectory, open_store
from tests.draining import drain

from .conftest import generate, search, start


@pytest.fixture(params=["undrained", "drained"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Run something in a trajectory, and give that as it is read back."""

    def run(fn: Any) -> Trajectory:
        start(tmp_path)
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=0, lang="日本語") as handle:
            fn(handle)
        rolltrace.shutdown()
        if request.param == "drained":
            drain(tmp_path)
        return open_store(tmp_path).trajectory(handle.id)

    return run


def test_ops_are_a_tree_in_the_order_they_began(record: Any) -> None:
    @rolltrace.rollout_trace_op(name="outer")
    def outer() -> str:
        search("a")
        with pytest.raises(ValueError, match="no such page"):
            search("bad")
        return "done"

    found = record(lambda handle: (outer(), search("b")))
    assert [op.name for op in found.ops] == ["outer", "search"]
    first, second = found.ops[0].children
    assert (first.inputs, first.outputs, first.status, first.children) == ({"query": "a"}, "found a", "ok", [])
    assert (second.status, second.error, second.outputs) == ("error", "ValueError: no such page", None)
    assert "raise ValueError" in second.traceback
    assert found.ops[0].start_ns <= first.start_ns <= first.end_ns <= found.ops[0].end_ns
    assert [op.name for op in found.walk()] == ["outer", "search", "search", "search"]
    assert (found.sample_index, found.tags, found.tool_calls, found.tool_errors) == (7, {"lang": "日本語"}, 3, 1)


def test_tokens_are_in_their_columns_and_in_their_place(record: Any) -> None:
    found = record(lambda handle: generate([{"role": "user", "content": "?"}], [5, 6], "好!"))
    ids = [ord("好"), ord("!")]
    assert found.tokens[0][1:6] == ("generate", [5, 6], ids, [-0.5, -0.5], [1, 1])
    assert found.ops[0].inputs["prompt_ids"] == [5, 6]
    assert found.ops[0].outputs["token_ids"] == ids
    assert found.ops[0].outputs["logprobs"] == [-0.5, -0.5]
    assert (found.ops[0].policy_version, found.ops[0].finish_reason) == (2, "stop")


def test_numbers_are_numbers_again(record: Any) -> None:
    @rolltrace.rollout_trace_op
    def odd(value: Any) -> Any:
        return value

    values = [float("inf"), 1 << 80, {"$float": "what"}, "ü\u0000", [1.5, float("-inf")], {"$column": "inputs"}]
    found = record(lambda handle: odd(values))
    assert found.ops[0].outputs == values
    assert found.ops[0].inputs == {"value": values}


def test_what_was_said_is_there(record: Any) -> None:
    def say(handle: Any) -> None:
        handle.reward(0.5, terms={"format": 1.0})
        handle.reward(1.0)
        handle.note("look", why={"a": 1})
        handle.tag(hard=True)
        handle.transition({"prompt": "p"}, reward=2.0, episode_done=True)

    found = record(say)
    assert [(score["name"], score["value"], score["terms"]) for score in found.scores] == [
        ("reward", 0.5, {"format": 1.0}),
        ("reward", 1.0, {}),
    ]
    assert found.reward == 1.0
    assert [(note["event"], note["body"]) for note in found.notes] == [
        ("note", {"text": "look", "fields": {"why": {"a": 1}}}),
        ("tag", {"hard": True}),
    ]
    assert found.tags == {"lang": "日本語", "hard": True}
    (transition,) = found.transitions
    assert (transition["trace"], transition["reward"]) == ({"prompt": "p"}, 2.0)
    assert transition["fields"]["episode_done"] is True


def test_the_conversation_of_a_real_run(record: Any) -> None:
    def rollout(handle: Any) -> None:
        messages = [{"role": "user", "content": "Wo?"}]
        for turn in range(2):
            generate(messages, [1], f"reply {turn}")
            search(f"{turn}")
            messages = [*messages, {"role": "assistant", "content": f"reply {turn}"}, {"role": "tool", "content": "…"}]

    assert [(each["role"], each["content"]) for each in record(rollout).conversation] == [
        ("user", "Wo?"),
        ("assistant", "reply 0"),
        ("tool", "found 0"),
        ("assistant", "reply 1"),
        ("tool", "found 1"),
    ]


def test_a_text_that_does_not_fit_its_tokens_has_no_pieces() -> None:
    tokens = OpTokens(1, "generate", [1], [2, 3], None, None, "ab", "cde", [2, 1, 2])
    assert (tokens.prompt_pieces, tokens.response_pieces) == (["ab"], ["c", "de"])
    assert tokens._replace(response_text="cd").response_pieces is None
    assert tokens._replace(piece_chars=None).prompt_pieces is None
    assert tokens._replace(piece_chars=[2, 3]).response_pieces is None
