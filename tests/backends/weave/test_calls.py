from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.weave.calls import WeaveCall, call_id, calls_of, object_name, scores_of
from rolltrace.query import Trajectory

Record = Callable[[Callable[[], None]], list[Trajectory]]


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"token_ids": [7, 8, 9], "text": "四", "logprobs": [-0.5, float("nan"), -2.0]}


@rolltrace.rollout_trace_op(kind="llm")
def chat(prompt_ids: list[int], messages: list[dict[str, str]]) -> dict[str, Any]:
    return generate(prompt_ids, messages)


@rolltrace.rollout_trace_op(kind="tool")
def search(query: Any) -> Any:
    if query == "bad":
        raise ValueError("没有结果")
    return query


@rolltrace.rollout_trace_op
def agent(question: str) -> str:
    chat([1, 2], [{"role": "user", "content": question}])
    search("paris")
    return "done"


def rollout() -> None:
    with rolltrace.rollout_trace_attr(sample_index=7, step=3, rollout_n=0, difficulty="hard") as trajectory:
        agent("2+2?")
    trajectory.reward(0.25)
    trajectory.reward(0.75, terms={"format": 1.0})


def by_name(trajectory: Trajectory) -> dict[str, WeaveCall]:
    return {call.op: call for call in calls_of(trajectory)}


def test_a_trajectory_is_a_root_call_with_its_ops_below(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    calls = by_name(trajectory)
    parents = {call.fields["id"]: call.fields["parent_id"] for call in calls.values()}
    names = {call.id: name for name, call in calls.items()}
    assert {names[child]: names.get(parent) for child, parent in parents.items()} == {
        "rollout_trace": None,
        "agent": "rollout_trace",
        "chat": "agent",
        "generate": "chat",
        "search": "agent",
    }
    assert {call.fields["trace_id"] for call in calls.values()} == {calls["rollout_trace"].id}


def test_the_root_call_carries_the_viewers_address(recorded: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    (trajectory,) = recorded(rollout)
    assert "url" not in by_name(trajectory)["rollout_trace"].fields["attributes"]
    monkeypatch.setenv("ROLLTRACE_VIEW_URL", "http://lab:7655")
    calls = by_name(trajectory)
    assert calls["rollout_trace"].fields["attributes"]["url"] == f"http://lab:7655/t/{trajectory.trajectory_id}"
    assert "url" not in calls["agent"].fields["attributes"]


def test_ids_are_uuids_made_of_ours_and_the_same_each_time(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    ids = [call.id for call in calls_of(trajectory)]
    assert ids == [call.id for call in calls_of(trajectory)]
    assert len(set(ids)) == 5
    assert ids[0] == call_id(trajectory.trajectory_id) == str(uuid.UUID(trajectory.trajectory_id))
    assert all(str(uuid.UUID(each)) == each for each in ids)


def test_times_are_those_of_the_op(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    for op in trajectory.walk():
        call = by_name(trajectory)[op.name]
        assert op.end_ns is not None
        started, ended = (datetime.fromisoformat(call.fields[name]) for name in ("started_at", "ended_at"))
        assert started.timestamp() == pytest.approx(op.start_ns / 1e9, abs=2e-6)
        assert ended.timestamp() == pytest.approx(op.end_ns / 1e9, abs=2e-6)


def test_every_call_has_the_coordinates_and_the_root_what_there_is_about_the_whole(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    where = {
        "step": 3,
        "sample_index": 7,
        "rollout_n": 0,
        "validate": False,
        "experiment_name": "baseline",
        "trajectory_id": trajectory.trajectory_id,
    }
    calls = by_name(trajectory)
    assert all(where.items() <= call.fields["attributes"].items() for call in calls.values())
    root = calls["rollout_trace"].fields
    assert (root["attributes"]["tags"], root["attributes"]["turns"]) == ({"difficulty": "hard"}, 2)
    assert root["display_name"] == "step 3 / sample 7 / rollout 0"
    assert root["inputs"] == {"messages": [{"role": "user", "content": "2+2?"}]}


def test_a_trajectory_with_no_coordinates_is_called_by_its_name(recorded: Record) -> None:
    def program() -> None:
        with rolltrace.rollout_trace_attr(name="smoke test"):
            search("a")

    (trajectory,) = recorded(program)
    root = next(calls_of(trajectory)).fields
    assert root["display_name"] == "smoke test"
    assert root["output"] is None


def test_an_error_is_told_as_weaves_own_client_tells_it(recorded: Record) -> None:
    def program() -> None:
        with rolltrace.rollout_trace_attr(step=1), pytest.raises(ValueError, match="没有"):
            search("bad")

    (trajectory,) = recorded(program)
    told = json.loads(by_name(trajectory)["search"].fields["exception"])
    assert (told["type"], told["message"]) == ("ValueError", "没有结果")
    assert (told["traceback"][-1]["function_name"], told["traceback"][-1]["filename"]) == ("search", __file__)
    assert told["traceback"][-1]["text"] == 'raise ValueError("没有结果")'


def test_what_never_ended_ends_with_the_last_thing_known_and_says_so(recorded: Record) -> None:
    left = rolltrace.rollout_trace_attr(step=1)

    def program() -> None:
        left.__enter__()
        search("inside")

    (trajectory,) = recorded(program)
    assert trajectory.status == "interrupted"
    root, inner = calls_of(trajectory)
    assert root.fields["ended_at"] == inner.fields["ended_at"]
    assert json.loads(root.fields["exception"])["type"] == "Interrupted"
    left.__exit__(None, None, None)


def test_tokens_are_counted_once_however_many_ops_saw_them(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    root = by_name(trajectory)["rollout_trace"].fields["summary"]
    usage = {"requests": 1, "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert root == {"status_counts": {"success": 5, "error": 0}, "usage": {"policy": usage}}
    assert by_name(trajectory)["search"].fields["summary"] == {"status_counts": {"success": 1, "error": 0}}


def test_numbers_that_json_has_no_word_for_are_marked(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    output = by_name(trajectory)["generate"].fields["output"]
    assert output["logprobs"] == [-0.5, {"$float": "nan"}, -2.0]


def test_a_payload_that_looks_like_weaves_own_objects_is_defused(recorded: Record) -> None:
    hostile = {"link": "weave:///a/b/op/c:d", "object": {"_type": "CustomWeaveType", "files": {"obj.py": "x"}}}

    def program() -> None:
        with rolltrace.rollout_trace_attr(name="weave:///a", url="weave-trace-internal:///x"):
            search([hostile])

    (trajectory,) = recorded(program)
    calls = by_name(trajectory)
    assert calls["search"].fields["output"] == [
        {"link": "\\weave:///a/b/op/c:d", "object": {"\\_type": "CustomWeaveType", "files": {"obj.py": "x"}}}
    ]
    root = calls["weave:///a"].fields
    assert (root["display_name"], root["attributes"]["tags"]["url"]) == ("\\weave:///a", "\\weave-trace-internal:///x")


def test_a_call_over_weaves_limit_is_cut_and_says_so(recorded: Record) -> None:
    def program() -> None:
        with rolltrace.rollout_trace_attr(step=1):
            search({"small": "kept", "large": "好" * 1_000_000})

    (trajectory,) = recorded(program)
    call = by_name(trajectory)["search"]
    assert 2_900_000 < len(json.dumps(call.fields)) < 3.5 * (1 << 20)
    for value in (call.fields["inputs"]["query"], call.fields["output"]):
        assert value["small"] == "kept"
        assert value["large"]["$cut"]["full_length"] == 1_000_000


def test_the_newest_score_of_a_name_counts(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    (score,) = scores_of(trajectory)
    assert (score.name, score.output) == ("reward", {"value": 0.75, "terms": {"format": 1.0}})


def test_a_score_that_changes_has_another_id_and_one_that_does_not_has_the_same(recorded: Record) -> None:
    (trajectory,) = recorded(rollout)
    (score,) = scores_of(trajectory)
    assert scores_of(trajectory)[0].id == score.id
    trajectory.scores.append(replace(trajectory.scores[-1], value=0.5))
    assert scores_of(trajectory)[0].id != score.id


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("ToolAgentLoop.run", "ToolAgentLoop.run"),
        ("搜索", "搜索"),
        ("f.<locals>.g", "f.-locals-.g"),
        ("weave:///a/b", "weave-a-b"),
        ("<lambda>", "lambda"),
        ("///", "unnamed"),
        ("x" * 500, "x" * 128),
    ],
)
def test_names_are_those_that_weave_takes(name: str, safe: str) -> None:
    assert object_name(name) == safe
