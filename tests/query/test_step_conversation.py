"""What a policy saw and said, from its environment steps, where its ops have nothing but tokens."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import RolloutTrace
from rolltrace.exchange.formats import EXPORTS
from rolltrace.exchange.selection import select
from rolltrace.query import Store, messages_of_trajectory, open_store, search_text
from tests.draining import drain

from .conftest import start

SYSTEM = {"role": "system", "content": "Add."}
ASKED = {"role": "user", "content": "2 + 2 + 2?"}
GO_ON = {"role": "user", "content": "and two more?"}


@rolltrace.rollout_trace_op(kind="llm")
def sample(prompt_ids: list[int], reply: list[int]) -> dict[str, Any]:
    return {"tokens": reply, "logprobs": [-0.5] * len(reply)}


def write_steps(store: Path) -> None:
    """A group of two: tokens in the ops, messages in the steps."""
    start(store)
    for n, last in enumerate(("six", "seven")):
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=n) as handle:
            history = [SYSTEM, ASKED]
            for turn, word in enumerate(("four", last)):
                sample(list(range(turn + 2)), [turn, turn])
                said = {"role": "assistant", "content": word}
                trace = RolloutTrace(prompt=history, policy_response=said, reward_data={"note": "zebra"})
                handle.transition(trace, reward=float(turn and not n))
                history = [*history, said, GO_ON]
        handle.reward(float(not n))
    rolltrace.shutdown()
    drain(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("steps")
    write_steps(path)
    return open_store(path)


def exported(store: Store, name: str) -> list[dict[str, Any]]:
    out = StringIO()
    EXPORTS[name].write(select(store), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_conversation_is_that_of_the_steps(store: Store) -> None:
    trajectory = store.trajectory(store.trajectories(rollout_n=0).rows()[0]["trajectory_id"])
    assert trajectory.conversation == [
        SYSTEM,
        ASKED,
        {"role": "assistant", "content": "four"},
        GO_ON,
        {"role": "assistant", "content": "six"},
    ]
    shown = messages_of_trajectory(trajectory)
    assert [(each.role, each.turn) for each in shown] == [
        ("system", 0), ("user", 0), ("assistant", 0), ("user", 1), ("assistant", 1)
    ]  # fmt: skip
    names = {str(op.op_id): op.name for op in trajectory.walk()}
    assert [names[each.op_id] for each in shown if each.op_id is not None] == ["sample", "sample"]


def test_it_is_found_and_exported(store: Store) -> None:
    assert [row["rollout_n"] for row in store.trajectories(where="text ~ 'SEVEN'")] == [1]
    assert len(store.trajectories(where="text !~ 'two more'")) == 0
    (hit,) = search_text(store, "seven").hits
    assert [(each.where, each.match, each.turn) for each in hit.matches] == [("text", "seven", 1)]
    lines = exported(store, "sft")
    assert [line["messages"][-1]["content"] for line in lines] == ["six", "seven"]
    (pair,) = exported(store, "dpo")
    assert (pair["prompt"], pair["chosen"][-1]["content"], pair["rejected"][-1]["content"]) == (
        [SYSTEM, ASKED],
        "six",
        "seven",
    )


PROMPTS: list[tuple[list[Any], list[str]]] = [
    (["Q", "QA and?"], ["Q", "A", " and?", "A"]),
    (["one", "two"], ["one", "A", "two", "A"]),
    ([{"messages": [ASKED]}, [ASKED]], [ASKED["content"], "A", "A"]),
    ([[1, 2], None], ["A", "A"]),
]
"""The prompts of two turns, and what is told of them and of the replies."""


def test_prompts_of_any_form(tmp_path: Path) -> None:
    ids = []
    start(tmp_path)
    for prompts, _ in PROMPTS:
        with rolltrace.rollout_trace_attr(7) as handle:
            for prompt in prompts:
                handle.transition(RolloutTrace(prompt=prompt, policy_response="A"))
        ids.append(handle.id)
    rolltrace.shutdown()
    store = open_store(tmp_path)
    for trajectory_id, (_, told) in zip(ids, PROMPTS):
        assert [message["content"] for message in store.trajectory(trajectory_id).conversation] == told


def test_ops_that_tell_the_conversation_come_first(tmp_path: Path) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def chat(messages: list[dict[str, str]]) -> str:
        return "from the op"

    start(tmp_path)
    with rolltrace.rollout_trace_attr(7) as handle:
        chat([ASKED])
        handle.transition(RolloutTrace(prompt="other", policy_response="from the step"))
    rolltrace.shutdown()
    assert open_store(tmp_path).trajectory(handle.id).conversation[-1]["content"] == "from the op"
