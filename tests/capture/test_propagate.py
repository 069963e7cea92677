"""The scope follows tasks, threads, pools and processes, and only them."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import _guard, current_context, rollout_trace_attr, rollout_trace_op, use_context
from rolltrace.capture import scope
from rolltrace.errors import ContextError
from rolltrace.record import Coordinates
from rolltrace.testing import Recording, recording


@rollout_trace_op(name="step")
def step(x: Any = None) -> Any:
    return x


@rollout_trace_op(name="later")
async def later(x: Any = None) -> Any:
    await asyncio.sleep(0)
    return step(x)


def run_thread(make: Any) -> None:
    thread = make()
    thread.start()
    thread.join()


class OwnRun(threading.Thread):
    def run(self) -> None:
        step()


WAYS_SYNC = {
    "Thread": lambda: run_thread(lambda: threading.Thread(target=step)),
    "Thread subclass": lambda: run_thread(OwnRun),
    "Timer": lambda: run_thread(lambda: threading.Timer(0, step)),
    "submit": lambda: _in_pool(lambda pool: pool.submit(step).result()),
    "map": lambda: _in_pool(lambda pool: list(pool.map(step, [1]))),
}
WAYS_ASYNC = {
    "await": lambda: later(),
    "task": lambda: asyncio.create_task(later()),
    "gather": lambda: asyncio.gather(later(), later()),
    "wait_for": lambda: asyncio.wait_for(later(), 5),
    "to_thread": lambda: asyncio.to_thread(step),
    "run_in_executor": lambda: asyncio.get_running_loop().run_in_executor(None, step),
}


def _in_pool(use: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        use(pool)


@pytest.mark.parametrize("way", WAYS_SYNC)
def test_the_scope_follows_threads(traced: Recording, way: str) -> None:
    with rollout_trace_attr(sample_index=1, step=2) as trajectory:
        rollout_trace_op(name="outer")(WAYS_SYNC[way])()
    inner, outer = traced.ops
    assert inner.trajectory_id == trajectory.id
    assert inner.parent_id == outer.op_id
    assert inner.thread != outer.thread == ""


@pytest.mark.parametrize("way", WAYS_ASYNC)
async def test_the_scope_follows_asyncio(traced: Recording, way: str) -> None:
    with rollout_trace_attr(sample_index=1) as trajectory:
        await WAYS_ASYNC[way]()
    assert {op.trajectory_id for op in traced.ops} == {trajectory.id}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup came with 3.11")
async def test_the_scope_follows_a_task_group(traced: Recording) -> None:
    with rollout_trace_attr(sample_index=1) as trajectory:
        async with asyncio.TaskGroup() as group:
            group.create_task(later())
            group.create_task(later())
    assert [op.trajectory_id for op in traced.ops] == [trajectory.id] * 4


async def test_concurrent_trajectories_on_one_loop_do_not_mix(traced: Recording) -> None:
    async def rollout(n: int) -> None:
        async with rollout_trace_attr(sample_index=n // 4, step=1, rollout_n=n % 4):
            for turn in range(3):
                await later((n, turn))
                await asyncio.to_thread(step, (n, turn))

    await asyncio.gather(*map(rollout, range(16)))
    for op in traced.ops:
        n = op.inputs["x"][0]
        assert op.coordinates == Coordinates(1, n // 4, n % 4)
    assert len(traced.ops) == 16 * 3 * 3


def test_a_pool_thread_does_not_keep_the_trajectory_it_was_started_in(traced: Recording) -> None:
    with ThreadPoolExecutor(1) as pool:
        with rollout_trace_attr(sample_index=1) as trajectory:
            pool.submit(step, "inside").result()
        pool.submit(step, "after").result()
    inside, after = traced.ops
    assert inside.trajectory_id == trajectory.id != after.trajectory_id
    assert after.coordinates == Coordinates()


def test_a_failing_submit_leaves_the_scope_as_it_was(traced: Recording) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with rollout_trace_attr() as trajectory:
        with pytest.raises(RuntimeError):
            pool.submit(step)
        assert scope.current.get() is trajectory


def test_a_pool_still_gives_results_and_exceptions(traced: Recording) -> None:
    with ThreadPoolExecutor(1) as pool, rollout_trace_attr():
        assert pool.submit(dict, fn=1, place=2, self=3).result() == {"fn": 1, "place": 2, "self": 3}
        failed: Future[Any] = pool.submit(int, "x")
        assert isinstance(failed.exception(), ValueError)


def test_a_thread_started_twice_fails_as_before_and_keeps_its_run(traced: Recording) -> None:
    with rollout_trace_attr():
        thread = threading.Thread(target=step)
        run_thread(lambda: thread)
        with pytest.raises(RuntimeError, match="only be started once"):
            thread.start()
    assert "run" not in vars(thread)


def test_a_thread_that_outlives_its_trajectory_still_belongs_to_it(traced: Recording) -> None:
    go = threading.Event()
    with rollout_trace_attr(sample_index=1) as trajectory:
        thread = threading.Thread(target=lambda: (go.wait(5), step()))
        thread.start()
    go.set()
    thread.join()
    assert traced.op.trajectory_id == trajectory.id


def test_outside_of_everything_a_context_carries_only_how_to_turn_tracing_on(traced: Recording) -> None:
    text = current_context()
    assert text.startswith(f"00-{'0' * 32}-{'0' * 16}-01;" + '{"settings":{')
    with use_context(text):
        assert scope.current.get() is None


def test_while_off_there_is_no_context() -> None:
    with rollout_trace_attr(sample_index=1):
        assert current_context() == ""
    with use_context("00-" + "1" * 32 + "-" + "1" * 16 + "-01"):
        assert scope.current.get() is None


@pytest.mark.parametrize("sample", [3, "7b1e", "样本", 'a"b;c'])
def test_a_context_carries_trajectory_op_and_coordinates(traced: Recording, sample: Any) -> None:
    with rollout_trace_attr(sample_index=sample, step=4, rollout_n=2, validate=True) as trajectory:
        text = rollout_trace_op(name="send")(current_context)()
    assert text.isascii()
    with use_context(text):
        step()
    sent, received = traced.ops
    assert (received.trajectory_id, received.parent_id) == (trajectory.id, sent.op_id)
    assert received.coordinates == Coordinates(4, sample, 2, True)
    assert scope.current.get() is None


async def test_use_context_works_with_async_with(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        text = current_context()
    async with use_context(text):
        await later()
    assert {op.trajectory_id for op in traced.ops} == {trajectory.id}


def test_silence_is_carried_too(traced: Recording) -> None:
    with rollout_trace_attr(trace=False):
        text = current_context()
    with use_context(text):
        step()
    assert traced.records == []


IDS = "00-" + "1" * 32 + "-" + "1" * 16 + "-01"
MALFORMED = [
    "x", "00-1-2-01", IDS.replace("1", "g"), IDS + ";{", IDS + ";{bad}",
    IDS + ';{"step":"first"}', IDS + "\n",
    "00-" + "1" * 32 + "-" + "f" * 16 + "-01", IDS + ';{"step":' + "9" * 5000 + "}", 7, b"x",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_context_is_a_counted_fault(traced: Recording, lenient: None, text: Any) -> None:
    with use_context(text):
        step()
    assert (traced.op.coordinates, _guard.internal_errors) == (Coordinates(), {"use_context: ContextError": 1})


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_context_is_told_when_strict(traced: Recording, text: Any) -> None:
    with pytest.raises(ContextError), use_context(text):
        pass


def test_an_empty_context_means_none(traced: Recording) -> None:
    with use_context(""):
        step()
    assert traced.op.coordinates == Coordinates()


CHILD = """
import sys
from rolltrace import rollout_trace_op, use_context
from rolltrace.testing import recording

with recording() as traced, use_context(sys.argv[1]):
    rollout_trace_op(name="child")(lambda: None)()
op = traced.op
print(op.trajectory_id, op.parent_id, op.coordinates.sample_index)
"""


def test_a_context_goes_into_another_process(traced: Recording) -> None:
    @rollout_trace_op
    def call_child() -> str:
        made = subprocess.run(
            [sys.executable, "-c", CHILD, current_context()], capture_output=True, text=True, check=True
        )
        return made.stdout

    with rollout_trace_attr(sample_index="s1") as trajectory:
        said = call_child()
    assert said.split() == [trajectory.id, str(traced.op.op_id), "s1"]


def test_threads_are_patched_once(traced: Recording) -> None:
    patched = threading.Thread.start, ThreadPoolExecutor.submit
    with recording():
        assert (threading.Thread.start, ThreadPoolExecutor.submit) == patched
    assert patched[0].__wrapped__.__module__ == "threading"  # type: ignore[attr-defined]


def test_a_process_that_has_loaded_nothing_else_continues_a_trajectory(tmp_path: Path) -> None:
    """As a worker of Ray, which loads no more than what reads the call."""
    code = """
import sys
from rolltrace.capture import rollout_trace_op, use_context

@rollout_trace_op
def elsewhere(): return 1

with use_context(sys.argv[1]):
    elsewhere()
"""
    rolltrace.init("p", "e", store=tmp_path, drain="off")
    with rollout_trace_attr(sample_index=1, step=1):
        subprocess.run([sys.executable, "-c", code, current_context()], check=True)
    rolltrace.shutdown()
    (row,) = rolltrace.open(tmp_path).trajectories()
    assert [op.name for op in rolltrace.open(tmp_path).trajectory(row["trajectory_id"]).walk()] == ["elsewhere"]
