"""`rollout_trace_attr`: coordinates, the handle, silence, sampling."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.record import Coordinates, TrajectoryStart, decode_coordinates, decode_value
from rolltrace.testing import Recording


@rollout_trace_op
def step(x: Any = None) -> Any:
    return x


def test_ops_carry_the_coordinates_of_their_trajectory(traced: Recording) -> None:
    with rollout_trace_attr(sample_index=7, step=3, rollout_n=1, validate=True) as trajectory:
        step()
    assert traced.op.coordinates == Coordinates(step=3, sample_index=7, rollout_n=1, validate=True)
    assert traced.op.trajectory_id == trajectory.id
    assert (traced.op.parent_id, trajectory.traced) == (0, True)


async def test_it_works_with_async_with(traced: Recording) -> None:
    async with rollout_trace_attr(7, 3, 1):
        step()
    assert traced.op.coordinates == traced.trajectories[0].coordinates == Coordinates(3, 7, 1)


def test_start_and_end_are_both_complete(traced: Recording) -> None:
    with rollout_trace_attr(sample_index=7, step=3, name="agent_loop", split="train"):
        pass
    start = next(each for each in traced.records if isinstance(each, TrajectoryStart))
    (end,) = traced.trajectories
    assert (start.name, end.name, end.status) == ("agent_loop", "agent_loop", "ok")
    assert decode_coordinates(start.coordinates) == end.coordinates
    assert decode_value(start.tags) == end.tags == {"split": "train"}
    assert end.end_ns > end.start_ns == start.start_ns


class TorchLike:
    """What `tensor[i]` is to us."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


SAMPLE = uuid.UUID("12345678123456781234567812345678")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.int64(7), 7), (np.uint8(7), 7), (np.array(7), 7), (np.array([7]), 7), (TorchLike(7), 7),
        (7.0, 7), (np.float64(7.0), 7), (np.str_("a"), "a"), ("7", "7"), (str(SAMPLE), str(SAMPLE)),
        (SAMPLE, str(SAMPLE)), (True, 1), (0, 0), ("", ""), ("\ud800", "\\ud800"), (None, None),
    ],
)  # fmt: skip
def test_a_sample_index_of_any_kind_is_a_plain_int_or_str(traced: Recording, given: Any, kept: Any) -> None:
    with rollout_trace_attr(sample_index=given):
        pass
    found = traced.trajectories[0].coordinates.sample_index
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize("given", [np.int64(3), TorchLike(3), 3.0, "3", 3])
def test_step_and_rollout_n_are_whole_numbers(traced: Recording, given: Any) -> None:
    with rollout_trace_attr(step=given, rollout_n=given):
        pass
    assert traced.trajectories[0].coordinates == Coordinates(step=3, rollout_n=3)


def test_a_step_that_is_no_number_costs_the_step_not_the_trajectory(lenient: None, traced: Recording) -> None:
    with rollout_trace_attr(step="first") as trajectory:  # type: ignore[arg-type]
        step(1)
        trajectory.tag(a=1)
    assert (traced.op.inputs, traced.op.coordinates.step, trajectory.traced) == ({"x": 1}, None, True)
    assert traced.trajectories[0].tags == {"a": 1}
    assert scope.current.get() is None


def test_a_failed_trajectory_is_recorded_and_the_failure_passes(traced: Recording) -> None:
    failure = ValueError("broken")
    with pytest.raises(ValueError, match="broken") as told, rollout_trace_attr():
        raise failure
    (end,) = traced.trajectories
    assert told.value is failure
    assert end.status == "error"
    assert end.error is not None
    assert (end.error.type, end.error.message) == ("ValueError", "broken")


async def test_a_cancelled_trajectory_is_cancelled(traced: Recording) -> None:
    async def rollout() -> None:
        async with rollout_trace_attr(step=1):
            await asyncio.Event().wait()

    task = asyncio.create_task(rollout())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert traced.trajectories[0].status == "cancelled"


def test_the_handle_says_tags_rewards_transitions_and_notes(traced: Recording) -> None:
    with rollout_trace_attr(difficulty="easy") as trajectory:
        trajectory.tag(difficulty="hard", tries=2)
        trajectory.reward(0.5, terms={"format": 0.1, "answer": 0.4})
        trajectory.reward(None)
        trajectory.transition({"prompt": "p"}, reward=1.0, done=True)
        trajectory.transition(lambda: {"prompt": "made"})
        trajectory.note("odd", turn=3)
    assert [(said.event, said.body) for said in traced.events] == [
        ("tag", {"difficulty": "hard", "tries": 2}),
        ("reward", {"value": 0.5, "terms": {"format": 0.1, "answer": 0.4}}),
        ("reward", {"value": None, "terms": {}}),
        ("transition", {"trace": {"prompt": "p"}, "reward": 1.0, "done": True}),
        ("transition", {"trace": {"prompt": "made"}}),
        ("note", {"text": "odd", "fields": {"turn": 3}}),
    ]
    assert traced.trajectories[0].tags == {"difficulty": "hard", "tries": 2}


def test_what_is_said_inside_an_op_names_the_op(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        rollout_trace_op(trajectory.note)("inside")
        trajectory.note("outside")
    assert [said.op_id for said in traced.events] == [traced.op.op_id, 0]


def test_tags_are_kept_as_they_were_when_given(traced: Recording) -> None:
    first, second = ["a"], ["b"]
    with rollout_trace_attr(first=first) as trajectory:
        trajectory.tag(second=second)
        first.append("late")
        second.append("late")
    assert traced.trajectories[0].tags == {"first": ["a"], "second": ["b"]}


def test_the_handle_works_after_the_end(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        pass
    trajectory.reward(1.0)
    assert traced.events[0].trajectory_id == trajectory.id


def test_while_off_the_handle_does_nothing() -> None:
    called = []
    with rollout_trace_attr(sample_index=1) as trajectory:
        trajectory.tag(a=1)
        trajectory.reward(1.0)
        trajectory.transition(lambda: called.append(1))
        trajectory.note("x")
    assert (trajectory.id, trajectory.traced, trajectory.tags, called) == ("", False, {}, [])


def test_nested_trajectories_are_linked(traced: Recording) -> None:
    @rollout_trace_op
    def delegate() -> None:
        with rollout_trace_attr(name="sub-agent"):
            step()

    with rollout_trace_attr(sample_index=1, step=2) as outer:
        delegate()
        step()
    inside, delegating, after = traced.ops
    sub = traced.trajectories[0]
    assert (sub.parent_id, sub.parent_op_id) == (outer.id, delegating.op_id)
    assert inside.trajectory_id == sub.id != outer.id == after.trajectory_id
    assert (inside.parent_id, sub.coordinates) == (0, Coordinates())


def test_one_entry_can_be_used_again(traced: Recording) -> None:
    entry = rollout_trace_attr(step=1)
    for _ in range(2):
        with entry:
            step()
    assert len({op.trajectory_id for op in traced.ops}) == len(traced.trajectories) == 2


async def _silent_places() -> None:
    step()
    await asyncio.gather(asyncio.create_task(_op_later()), asyncio.to_thread(step))
    await asyncio.get_running_loop().run_in_executor(None, step)
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(step).result()
        list(pool.map(step, [1, 2]))
    with rollout_trace_attr(sample_index=1, step=1) as nested:
        step()
        nested.note("unheard")
    list(rollout_trace_op(lambda: iter([1]))())


@rollout_trace_op
async def _op_later() -> None:
    await asyncio.sleep(0)
    step()


async def test_trace_false_silences_everything_inside(traced: Recording) -> None:
    with rollout_trace_attr(sample_index=1, trace=False) as trajectory:
        await _silent_places()
    assert (traced.records, trajectory.traced) == ([], False)
    step()
    assert len(traced.ops) == 1


async def test_a_silent_task_does_not_silence_its_neighbour(traced: Recording) -> None:
    async def rollout(n: int) -> None:
        with rollout_trace_attr(rollout_n=n, trace=n % 2 == 0):
            await asyncio.sleep(0)
            await _op_later()

    await asyncio.gather(*map(rollout, range(4)))
    assert {op.coordinates.rollout_n for op in traced.ops} == {0, 2}


def test_a_handle_says_in_text_which_trajectory_it_is(traced: Recording) -> None:
    with rollout_trace_attr(sample_index="gsm8k/7", step=3, rollout_n=0) as handle:
        assert repr(handle) == f"TrajectoryHandle({handle.id!r}, step=3, sample_index='gsm8k/7', rollout_n=0)"
    with rollout_trace_attr(trace=False) as silent:
        assert repr(silent) == "TrajectoryHandle(not traced)"
