"""rollout_trace_group: what belongs to a group is recorded, and no rollout begins with it."""

from __future__ import annotations

import asyncio

import pytest

from rolltrace import current_context, rollout_trace_attr, rollout_trace_group, rollout_trace_op, use_context
from rolltrace.record import Coordinates
from rolltrace.testing import Recording, recording


@rollout_trace_op(kind="aux_llm")
def compare(pair: str) -> str:
    return f"{pair}: the first"


def test_ops_inside_belong_to_the_group(traced: Recording) -> None:
    with rollout_trace_group(sample_index=7, step=2, validate=True, judge="pairwise") as group:
        compare("a b")
        group.note("a tie", rounds=2)
    (record,) = traced.groups
    assert (traced.trajectories, record.id, record.name) == ([], group.id, "group")
    assert record.coordinates == Coordinates(step=2, sample_index=7, validate=True)
    assert record.tags == {"judge": "pairwise"}
    assert (traced.op.trajectory_id, traced.op.kind) == (group.id, "aux_llm")
    assert group.traced
    assert [event.trajectory_id for event in traced.events] == [group.id]


def test_a_rollout_that_begins_inside_is_no_part_of_it(traced: Recording) -> None:
    with rollout_trace_group(sample_index=7, step=2), rollout_trace_attr(7, step=2, rollout_n=0) as rollout:
        compare("a b")
    (trajectory,) = traced.trajectories
    assert (trajectory.id, trajectory.parent_id) == (rollout.id, "")
    assert traced.op.trajectory_id == rollout.id


def test_a_rollout_in_another_process_inside_is_no_part_of_it(traced: Recording) -> None:
    with rollout_trace_group(sample_index=7, step=2):
        context = current_context()
    with use_context(context), rollout_trace_attr(7, step=2, rollout_n=0):
        pass
    assert [each.parent_id for each in traced.trajectories] == [""]


def test_a_group_inside_a_rollout_is_linked_to_it(traced: Recording) -> None:
    with rollout_trace_attr(7, step=2) as rollout, rollout_trace_group(7, 2):
        pass
    assert [each.parent_id for each in traced.groups] == [rollout.id]


def test_async_with_and_an_exception(traced: Recording) -> None:
    async def judged() -> None:
        async with rollout_trace_group(sample_index=7, step=2):
            compare("a b")
            raise ValueError("no winner")

    with pytest.raises(ValueError, match="no winner"):
        asyncio.run(judged())
    (record,) = traced.groups
    assert (record.status, record.error and record.error.message) == ("error", "no winner")


def test_untraced_it_is_there_and_does_nothing(traced: Recording) -> None:
    with rollout_trace_group(sample_index=7, step=2, trace=False) as group:
        compare("a b")
        group.note("unheard")
        group.tag(a=1)
    assert (group.id, group.traced, traced.records) == ("", False, [])


def test_a_group_follows_its_sample_and_is_not_counted() -> None:
    with recording(max_samples_per_step_per_worker=1) as traced:
        for sample in range(20):
            with rollout_trace_attr(sample, step=1):
                pass
            with rollout_trace_group(sample, 1):
                pass
    dropped = [event.body for event in traced.events if event.event == "drop"]
    ids = {each.id: each.coordinates.sample_index for each in (*traced.trajectories, *traced.groups)}
    kept = set(ids.values()) - {ids[name] for body in dropped for name in body["trajectories"]}
    assert len(kept) == 1
    assert all(
        [ids[name] for name in body["trajectories"]] == [ids[name] for name in body["groups"]] for body in dropped
    )
    lost = sum(sum(steps.values()) for steps in traced.sink.losses.values())
    assert lost + sum(body["count"] for body in dropped) == 19
