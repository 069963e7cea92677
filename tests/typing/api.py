"""Calls that the type checker must accept. Checked by `make check`, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from typing_extensions import assert_type

import rolltrace


@rolltrace.rollout_trace_op
def plain(text: str, limit: int = 3) -> list[str]:
    return [text] * limit


@rolltrace.rollout_trace_op(name="policy", kind="llm", inputs=["prompt_ids"], outputs=lambda output: output)
async def generate(prompt_ids: list[int]) -> dict[str, list[int]]:
    return {"token_ids": prompt_ids}


@rolltrace.rollout_trace_op(inputs=False)
def items() -> Iterator[int]:
    yield 1


@rolltrace.rollout_trace_op
async def async_items() -> AsyncIterator[int]:
    yield 1


class Agent:
    @rolltrace.rollout_trace_op
    def method(self, turn: int) -> str:
        return str(turn)

    @staticmethod
    @rolltrace.rollout_trace_op
    def static(turn: int) -> str:
        return str(turn)

    @classmethod
    @rolltrace.rollout_trace_op
    def of_class(cls, turn: int) -> Agent:
        return cls()


async def use() -> None:
    rolltrace.init("project", "run", "rolltrace", store="/tmp/x", token2text=True, max_samples_per_step_per_worker=2)
    rolltrace.init({"trainer": {"project_name": "p"}})
    rolltrace.init("project", "run", ["rolltrace", "mlflow"], drain="thread", limits={"max_bytes": "1MiB"})
    rolltrace.RolloutTraceConfig.init("project", "run", "rolltrace", True, 2)
    assert_type(plain("a"), list[str])
    assert_type(await generate([1]), dict[str, list[int]])
    assert_type(Agent().method(1), str)
    assert_type(Agent.static(1), str)
    assert_type(Agent.of_class(1), Agent)
    for item in items():
        assert_type(item, int)
    async for item in async_items():
        assert_type(item, int)
    with rolltrace.rollout_trace_attr(sample_index="uuid", step=1, rollout_n=0, difficulty="hard") as trajectory:
        assert_type(trajectory, rolltrace.capture.TrajectoryHandle)
        trajectory.reward(1.0, terms={"format": 0.5})
        trajectory.tag(turns=3)
        trajectory.transition(lambda: {"prompt": []}, reward=1.0)
        trace = rolltrace.RolloutTrace(prompt=[], policy_response="", reward_data={"format": 1.0}, extra=None)
        trajectory.transition(
            trace, reward=0.5, episode_done=True, metrics={"a": 1}, logs={}, stop_reason="length", turn=3
        )
        trajectory.amend_transition(turn=0, reward=None, metrics={"b": 2}, own=1)
        rolltrace.capture.amend_transition(trajectory.id, episode_done=True)
        assert_type(rolltrace.trace_env(Agent(), state=lambda agent: agent.method(1)), Agent)
        assert_type(rolltrace.trace_env(Agent(), response=lambda agent, action: [agent.method(1), action]), Agent)
        rolltrace.capture.backfill([trajectory], {trajectory.id: trace}, rewards={trajectory.id: 0.5})
        rolltrace.capture.backfill([trajectory, "0" * 32], [(trajectory, trace), ("0" * 32, lambda: {"extra": 1})])
        trajectory.note("fine", author="me")
        assert_type(trajectory.id, str)
        rolltrace.score(trajectory, "format", 0.5, terms={"json": 1}, reason="no JSON")
    rolltrace.score((1, "uuid", 0), "advantage", 0.5)
    rolltrace.score((1, 7, 0, True), "fate", "filtered", reason="too long")
    rolltrace.score((1, 7, 0), "fate", "trained", trained_step=3)
    rolltrace.score("0" * 32, "reward", None)
    async with rolltrace.rollout_trace_group(sample_index=7, step=1, judge="pairs") as group:
        assert_type(group, rolltrace.capture.TraceGroup)
        group.note("a tie")
    assert_type(rolltrace.open().group_records(1, 7)[0].is_group, bool)
    assert_type(rolltrace.capture.next_rollout_n(7, step=1, count=4), int)
    rolltrace.open().score((1, 7, 0), "note", "fine", project="p", experiment="e")
    async with rolltrace.rollout_trace_attr(trace=False):
        pass
    with rolltrace.use_context(rolltrace.current_context()):
        pass
    assert_type(rolltrace.capture.choose_samples([1, 2, 3], limit=2), set[int])
    assert_type(rolltrace.flush(1.0), bool)
    assert_type(rolltrace.stats().lost, int)
