"""The same rollouts in Ray actors and through AgentLoopManager, killed, cancelled, limited."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.utils.rollout_trace import RolloutTraceConfig
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient

import rolltrace
from rolltrace.errors import BackendError

from .compared import returned, traced
from .parts import batch_of
from .rig import Rig
from .test_agent_loops import assert_complete


@pytest.fixture(scope="module")
def manager(rig: Rig) -> Any:
    """Two workers for all tests here, because they take long to start; each test has a step of its own."""
    return rig.manager(rig.config("managed"))


@pytest.mark.parametrize(("step", "validate"), [(1, False), (2, True)])
def test_groups_of_four_through_the_manager(manager: Any, recorded: Any, step: int, validate: bool) -> None:
    output = manager.generate_sequences(batch_of(["add", "divide", "look", "hi"], n=4, step=step, validate=validate))
    found = recorded("managed", step)
    assert_complete(output, found)
    assert [(each.sample_index, each.rollout_n) for each in found] == [(s, n) for s in range(4) for n in range(4)]
    assert {each.validate for each in found} == {validate}
    assert len({each.worker for each in found}) == 2


def test_a_group_that_is_split_over_two_workers_has_each_number_once(manager: Any, recorded: Any) -> None:
    async def awaited() -> DataProto:
        return await manager.generate_sequences(batch_of(["hi"], n=4, step=3))

    asyncio.run(awaited())
    assert [each.rollout_n for each in recorded("managed", 3)] == [0, 1, 2, 3]


def test_actors_that_are_killed_right_after_the_rollout_lose_nothing(manager: Any, recorded: Any) -> None:
    workers = manager.agent_loop_workers
    chunks = batch_of(["add", "look"], n=4, step=4).chunk(2)
    outputs = ray.get([worker.generate_sequences.remote(chunk) for worker, chunk in zip(workers, chunks, strict=True)])
    for worker in workers:
        ray.kill(worker)
    assert_complete(DataProto.concat(outputs), recorded("managed", 4))
    assert len(recorded("managed", 4)) == 8


def test_a_cancelled_rollout_says_so(rig: Rig, experiment: str, recorded: Any) -> None:
    config = rig.config(experiment)

    async def give_up() -> None:
        worker = AgentLoopWorker(config, rig.client(config), None, [rig.judge])
        await asyncio.wait_for(worker.generate_sequences(batch_of(["hang"], n=2)), timeout=3)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(give_up())
    found = recorded()
    assert [each.status for each in found] == ["cancelled"] * 2
    assert {op.status for each in found for op in each.walk()} == {"cancelled"}


def test_a_limit_keeps_a_whole_group(rig: Rig, experiment: str, recorded: Any, store_folder: Path) -> None:
    limited = "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=1"
    rig.in_process(rig.config(experiment, limited), batch_of(["a", "b", "c"], n=4))
    groups = Counter(each.sample_index for each in recorded())
    assert list(groups.values()) == [4]
    left_out = [row for row in rolltrace.open(store_folder).losses() if row["experiment"] == experiment]
    assert sum(row["count"] for row in left_out) == 8


def test_a_limit_keeps_whole_groups_also_of_one_that_is_split_over_two_workers(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    limited = "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=1"
    manager = rig.manager(rig.config(experiment, limited))
    manager.generate_sequences(batch_of(["a", "b", "c"], n=4))
    found = recorded()
    assert set(Counter(each.sample_index for each in found).values()) == {4}
    by_worker = {(each.worker, each.sample_index) for each in found}
    assert len(by_worker) == len({worker for worker, _ in by_worker}) == 2
    for worker in manager.agent_loop_workers:
        ray.kill(worker)


def test_a_limit_leaves_the_random_state_alone(rig: Rig, experiment: str, recorded: Any) -> None:
    limited = "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=1"
    config = rig.config(experiment, limited)
    np.random.seed(7)
    expected = np.random.RandomState(7).random()
    rig.in_process(config, batch_of(["a", "b"]))
    assert len(recorded()) == 1
    assert np.random.random() == expected


def test_without_a_backend_nothing_is_changed(rig: Rig, experiment: str, recorded: Any) -> None:
    output = rig.in_process(rig.config(experiment, backend="null"), batch_of(["add"]))
    assert "rolltrace" not in output.non_tensor_batch
    assert recorded() == []


def test_a_call_that_new_weights_interrupt_is_one_turn_with_its_attempts_inside(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    config = rig.config(experiment)

    async def roll_out() -> DataProto:
        client = FullyAsyncLLMServerClient(config, load_balancer_handle=rig.balancer)
        worker = AgentLoopWorker(config, client, None, [rig.judge])
        return await worker.generate_sequences(batch_of(["interrupt me"], agent="single_turn_agent"))

    output = asyncio.run(roll_out())
    (each,) = recorded()
    assert (each.turns, traced(each)) == (1, returned(output)[0])
    (call,) = (op for op in each.walk() if op.kind == "llm")
    assert (call.name, call.policy_version) == ("FullyAsyncLLMServerClient.generate", 2)
    assert [(op.name, op.outputs["stop_reason"], op.policy_version) for op in call.children] == [
        ("LLMServerClient.generate", "aborted", 1),
        ("LLMServerClient.generate", "completed", 2),
    ]
    assert (call.response_text or "").startswith("the answer")


def test_a_backend_that_is_not_installed_is_an_error_that_names_it(rig: Rig, experiment: str) -> None:
    config = rig.config(experiment, backend="rolltrace+nowhere")
    with pytest.raises(BackendError, match="no backend 'nowhere'"):
        AgentLoopWorker(config, rig.client(config), None, None)
    assert RolloutTraceConfig.get_backend() is None
