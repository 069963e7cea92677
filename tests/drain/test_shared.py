"""What a transition shares with an op is stored once, and a pointer is nothing that a user could have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltrace
from rolltrace import RolloutTrace
from rolltrace.drain import shared
from rolltrace.query import Trajectory, open_store
from tests.draining import drain, rows

MESSAGES = [{"role": "user", "content": f"Where is the station? {n} " * 4} for n in range(3)]
REPLY = "Go straight on, then turn left at the church, and you will see it at once."


@rolltrace.rollout_trace_op(kind="llm", inputs=["-result"])
def generate(messages: Any, prompt_ids: Any = None, result: Any = REPLY) -> Any:
    return result


class Written:
    """A trajectory that was recorded and drained."""

    def __init__(self, store: Path, record: Any) -> None:
        self._store = store
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
        with rolltrace.rollout_trace_attr(1, step=1) as handle:
            record(handle)
        rolltrace.shutdown()
        drain(store)
        self._id = handle.id

    @property
    def stored(self) -> Any:
        """The trace of the newest transition as it is in the store."""
        return json.loads(rows(self._store, "transitions", order="time_ns")[-1]["trace"])

    @property
    def read(self) -> Trajectory:
        return open_store(self._store).trajectory(self._id)

    @property
    def trace(self) -> Any:
        """The same, as it is read."""
        return self.read.transitions[-1]["trace"]


def test_prompt_and_response_of_an_op_are_pointers(tmp_path: Path) -> None:
    def record(handle: Any) -> None:
        generate(MESSAGES)
        handle.transition(RolloutTrace(prompt=MESSAGES, policy_response=REPLY, reward_data={"format": 1.0}))

    written = Written(tmp_path, record)
    op_id = written.read.ops[0].op_id
    assert written.stored == {
        "prompt": {"$op": {"op_id": op_id, "path": ["inputs", "messages"]}},
        "policy_response": {"$op": {"op_id": op_id, "path": ["outputs"]}},
        "reward_data": {"format": 1.0},
    }
    assert written.trace == {"prompt": MESSAGES, "policy_response": REPLY, "reward_data": {"format": 1.0}}


def test_the_store_is_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)  # text that does not compress, so that it counts how often it is stored
    turns = [[{"role": "user", "content": random.bytes(3000).hex()}] for _ in range(10)]

    def record(handle: Any) -> None:
        for messages in turns:
            generate(messages)
            handle.transition(RolloutTrace(prompt=messages, policy_response=REPLY))

    small = Written(tmp_path / "small", record)
    monkeypatch.setattr(shared, "_MIN_BYTES", 1 << 40)
    large = Written(tmp_path / "large", record)
    sizes = [
        sum(file.stat().st_size for file in (tmp_path / name / "transitions" / "data").rglob("*.parquet"))
        for name in ("small", "large")
    ]
    assert sizes[0] < sizes[1] / 3
    assert [step["trace"] for step in small.read.transitions] == [step["trace"] for step in large.read.transitions]
    assert small.trace == {"prompt": turns[-1], "policy_response": REPLY}


@pytest.mark.parametrize(
    ("call", "value", "path"),
    [
        ({"messages": {"system": REPLY, "chat": MESSAGES}}, MESSAGES, ["inputs", "messages", "chat"]),
        ({"messages": MESSAGES}, MESSAGES[2], ["inputs", "messages", 2]),
        ({"messages": 1, "result": {"text": REPLY, "n": 1}}, {"text": REPLY, "n": 1}, ["outputs"]),
        ({"messages": 1, "result": {"text": REPLY, "n": 1}}, REPLY, ["outputs", "text"]),
        ({"messages": 1, "result": {"all": MESSAGES}}, MESSAGES[0], ["outputs", "all", 0]),
        ({"messages": {"logprobs": [0.1] * 9}}, [0.1] * 9, ["inputs", "messages", "logprobs"]),
        ({"messages": 1, "prompt_ids": [*range(99)]}, [*range(99)], ["inputs", "prompt_ids"]),
        ({"messages": 1, "result": {"token_ids": [*range(99)]}}, [*range(99)], ["outputs", "token_ids"]),
        ({"messages": 1, "result": {"output": {"text": REPLY}}}, REPLY, ["outputs", "output", "text"]),
    ],
)
def test_parts_further_down_are_found(tmp_path: Path, call: Any, value: Any, path: list[Any]) -> None:
    def record(handle: Any) -> None:
        generate(**call)
        handle.transition(RolloutTrace(env_state=value))

    written = Written(tmp_path, record)
    assert written.stored["env_state"]["$op"]["path"] == path
    assert written.trace == {"env_state": value}


def test_a_field_of_a_field_is_a_pointer(tmp_path: Path) -> None:
    state = {"messages": MESSAGES, "turn": 3, "response": {"text": REPLY, "logprobs": [-0.1]}}

    def record(handle: Any) -> None:
        generate(MESSAGES)
        handle.transition(RolloutTrace(env_state=state))

    written = Written(tmp_path, record)
    assert written.stored["env_state"]["messages"]["$op"]["path"] == ["inputs", "messages"]
    assert (written.stored["env_state"]["turn"], written.trace) == (3, {"env_state": state})


def test_what_stands_twice_in_one_trace_is_stored_once(tmp_path: Path) -> None:
    state = {"messages": MESSAGES, "reply": REPLY, "last": REPLY}
    written = Written(tmp_path, lambda handle: handle.transition(RolloutTrace(prompt=MESSAGES, env_state=state)))
    assert written.stored["env_state"] == {
        "messages": {"$op": {"path": ["prompt"]}},
        "reply": REPLY,
        "last": {"$op": {"path": ["env_state", "reply"]}},
    }
    assert written.trace == {"prompt": MESSAGES, "env_state": state}


@pytest.mark.parametrize(
    "result",
    [
        {"token_ids": [*range(40)], "logprobs": [-0.1] * 40, "text": REPLY},
        {"choices": [{"token_ids": [*range(40)], "logprobs": [-0.1] * 40, "text": REPLY}]},
        {"token_ids": np.arange(40), "text": REPLY},
    ],
    ids=["logprobs", "logprobs inside", "array"],
)
def test_what_the_store_keeps_in_another_form_is_not_pointed_to(tmp_path: Path, result: Any) -> None:
    def record(handle: Any) -> None:
        generate(1, result=result)
        handle.transition(RolloutTrace(policy_response=result))

    whole = Written(tmp_path / "whole", lambda handle: handle.transition(RolloutTrace(policy_response=result)))
    assert Written(tmp_path / "shared", record).trace == whole.trace


def test_reward_data_is_always_there_to_be_asked_for(tmp_path: Path) -> None:
    data = {"judge": REPLY, "score": 0.5}

    def record(handle: Any) -> None:
        generate(1, result=data)
        handle.transition(RolloutTrace(reward_data=data))

    assert Written(tmp_path, record).stored == {"reward_data": data}


def test_short_values_and_those_of_other_trajectories_are_not_pointed_to(tmp_path: Path) -> None:
    def record(handle: Any) -> None:
        with rolltrace.rollout_trace_attr(2, step=1):
            generate(MESSAGES)
        generate("hi", result="hello")
        handle.transition(RolloutTrace(prompt=MESSAGES, policy_response="hello"))

    assert Written(tmp_path, record).stored == {"prompt": MESSAGES, "policy_response": "hello"}


@pytest.mark.parametrize(
    "own",
    [
        {"$op": {"op_id": 1, "path": ["inputs"]}},
        {"$op": {"path": ["prompt"]}},
        {"$op": {"literal": {"$op": 1}}},
        {"$op": {"$op": {"literal": 5}}},
        {"$op": 1},
        {"$op": {"path": []}, "more": 1},
        {"deep": {"er": {"$op": {"path": ["prompt"]}}}},
    ],
)
def test_a_dict_of_the_users_that_looks_like_a_pointer_stays_what_it_is(tmp_path: Path, own: Any) -> None:
    trace = {"prompt": MESSAGES, "env_state": own, "extra": {"inside": own, "text": REPLY}, "reward_data": own}

    def record(handle: Any) -> None:
        generate(MESSAGES)
        handle.transition(trace)

    assert Written(tmp_path, record).trace == trace


@pytest.mark.parametrize(
    "trace",
    [{1: MESSAGES}, {1: {"$op": {"path": []}}}, {"a": {2: {"$op": {"literal": 1}}}}, [MESSAGES], REPLY, None, {}],
)
def test_any_other_trace_is_read_as_it_was(tmp_path: Path, trace: Any) -> None:
    def record(handle: Any) -> None:
        generate(MESSAGES)
        handle.transition(trace)

    assert Written(tmp_path, record).trace == json.loads(json.dumps(trace))


def test_it_forgets_the_oldest_trajectories_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_MAX_PARTS", 5)

    def record(handle: Any) -> None:
        generate(MESSAGES)
        with rolltrace.rollout_trace_attr(2, step=1):
            generate([f"{message['content']}!" for message in MESSAGES])
        handle.transition(RolloutTrace(prompt=MESSAGES))

    assert Written(tmp_path, record).stored == {"prompt": MESSAGES}
