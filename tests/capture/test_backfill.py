"""backfill: the right judgement on the right trajectory, or none at all."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace import RolloutTrace, rollout_trace_attr
from rolltrace.capture import TrajectoryHandle, backfill
from rolltrace.errors import ConfigError
from rolltrace.record import Coordinates, Event, decode_coordinates, decode_value
from rolltrace.testing import Recording

ELSEWHERE = "ab" * 16


@pytest.fixture
def group(traced: Recording) -> list[TrajectoryHandle]:
    """Three rollouts of one sample, whose responses are judged together."""
    handles = []
    for n in range(3):
        with rollout_trace_attr(sample_index=7, step=2, rollout_n=n) as handle:
            handle.transition(RolloutTrace(prompt="?", policy_response=f"answer {n}"))
        handles.append(handle)
    traced.sink.start_over_in_child()
    return handles


def judged(n: int) -> RolloutTrace:
    return RolloutTrace(reward_data={"wins": n})


def written(traced: Recording) -> list[tuple[str, Coordinates, Any]]:
    events = [record for record in traced.records if isinstance(record, Event)]
    return [
        (event.trajectory_id.hex(), decode_coordinates(event.coordinates), decode_value(event.body)) for event in events
    ]


@pytest.mark.parametrize("form", ["ids", "handles", "pairs", "pairs of ids", "callables", "dicts"])
def test_each_trajectory_gets_its_own(traced: Recording, group: list[TrajectoryHandle], form: str) -> None:
    traces: Any = {
        "ids": {handle.id: judged(n) for n, handle in enumerate(group)},
        "handles": {handle: judged(n) for n, handle in enumerate(group)},
        "pairs": [(handle, judged(n)) for n, handle in enumerate(group)],
        "pairs of ids": zip([handle.id for handle in group], [judged(n) for n in range(3)]),
        "callables": {handle.id: lambda n=n: judged(n) for n, handle in enumerate(group)},
        "dicts": {handle.id: {"reward_data": {"wins": n}} for n, handle in enumerate(group)},
    }[form]
    backfill(group, traces)
    assert written(traced) == [
        (
            handle.id,
            Coordinates(step=2, sample_index=7, rollout_n=n),
            {"backfill": True, "trace": {"reward_data": {"wins": n}}},
        )
        for n, handle in enumerate(group)
    ]


def test_a_mapping_may_be_in_any_order(traced: Recording, group: list[TrajectoryHandle]) -> None:
    backfill(group, {group[n].id: judged(n) for n in (2, 0, 1)})
    assert [(name, body["trace"]["reward_data"]["wins"]) for name, _, body in written(traced)] == [
        (handle.id, n) for n, handle in enumerate(group)
    ]


def test_an_id_alone_has_no_coordinates(traced: Recording, group: list[TrajectoryHandle]) -> None:
    backfill([ELSEWHERE.upper()], {ELSEWHERE: judged(5)})
    assert written(traced) == [
        (ELSEWHERE, Coordinates(), {"backfill": True, "trace": {"reward_data": {"wins": 5}}}),
    ]


def test_rewards_come_along(traced: Recording, group: list[TrajectoryHandle]) -> None:
    backfill(
        group, [(handle, judged(0)) for handle in group], rewards={handle.id: n / 2 for n, handle in enumerate(group)}
    )
    assert [body["reward"] for _, _, body in written(traced)] == [0.0, 0.5, 1.0]


def test_shuffled_pairs_are_refused(traced: Recording, group: list[TrajectoryHandle]) -> None:
    first, second, third = group
    with pytest.raises(ConfigError) as raised:
        backfill(group, [(first, judged(0)), (third, judged(2)), (second, judged(1))])
    message = str(raised.value)
    assert f"traces[1] is of {third.id}, trajectories[1] is {second.id}" in message
    assert "{handle.id: ...}" in message
    assert written(traced) == []


def test_a_missing_response_is_named(traced: Recording, group: list[TrajectoryHandle]) -> None:
    with pytest.raises(ConfigError, match=f"traces are missing for {group[1].id}.*2 traces, 3 trajectories"):
        backfill(group, [(group[0], judged(0)), (group[2], judged(2))])
    assert written(traced) == []


def test_a_surplus_response_is_named(traced: Recording, group: list[TrajectoryHandle]) -> None:
    traces = {**{handle.id: judged(0) for handle in group}, ELSEWHERE: judged(9)}
    with pytest.raises(ConfigError, match=f"too many, there is no trajectory {ELSEWHERE}"):
        backfill(group, traces)
    assert written(traced) == []


def test_a_response_for_another_trajectory_is_missing_and_surplus(
    traced: Recording, group: list[TrajectoryHandle]
) -> None:
    with pytest.raises(ConfigError, match=f"missing for {group[0].id}; .*no trajectory {ELSEWHERE}"):
        backfill(group[:1], {ELSEWHERE: judged(0)})
    assert written(traced) == []


def test_a_duplicate_response_is_named(traced: Recording, group: list[TrajectoryHandle]) -> None:
    first, second, _ = group
    with pytest.raises(ConfigError, match=f"traces name twice {second.id}"):
        backfill([first, second], [(first, judged(0)), (second, judged(1)), (second.id, judged(2))])
    assert written(traced) == []


def test_a_duplicate_trajectory_is_named(traced: Recording, group: list[TrajectoryHandle]) -> None:
    with pytest.raises(ConfigError, match=f"trajectories name twice {group[0].id}"):
        backfill([group[0], group[0].id], {group[0].id: judged(0)})
    assert written(traced) == []


def test_rewards_are_checked_as_well(traced: Recording, group: list[TrajectoryHandle]) -> None:
    traces = {handle.id: judged(0) for handle in group}
    with pytest.raises(ConfigError, match=f"rewards are missing for {group[2].id}"):
        backfill(group, traces, rewards={handle.id: 1.0 for handle in group[:2]})
    with pytest.raises(ConfigError, match="must be a number, not 'high'"):
        backfill(group[:1], {group[0].id: judged(0)}, rewards={group[0].id: "high"})
    assert written(traced) == []


@pytest.mark.parametrize("trace", [judged(0), {"reward_data": {}}, (judged(0), judged(1))])
def test_a_response_without_an_id_is_refused(traced: Recording, group: list[TrajectoryHandle], trace: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"without an id.*write \[\(handle, \.\.\.\), \.\.\.\] or \{handle\.id: \.\.\.\}"
    ):
        backfill(group[:1], [trace])
    assert written(traced) == []


def test_what_is_no_id_is_named(traced: Recording, group: list[TrajectoryHandle]) -> None:
    with pytest.raises(ConfigError, match="not 'prompt'"):
        backfill(group[:1], {"prompt": "?"})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="not 7"):
        backfill([7], {})  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="a list of trajectories, not str"):
        backfill(group[0].id, {group[0].id: judged(0)})


def test_what_is_no_trace_is_refused_before_anything_is_written(
    traced: Recording, group: list[TrajectoryHandle]
) -> None:
    with pytest.raises(ConfigError, match=f"the trace of {group[2].id} must be a RolloutTrace .*not float"):
        backfill(group, {group[0].id: judged(0), group[1].id: judged(1), group[2].id: lambda: 0.5})  # type: ignore[dict-item, return-value]
    assert written(traced) == []


def test_what_a_callable_raises_is_raised_before_anything_is_written(
    traced: Recording, group: list[TrajectoryHandle]
) -> None:
    def fail() -> RolloutTrace:
        raise LookupError("no judgement")

    with pytest.raises(LookupError, match="no judgement"):
        backfill(group, {group[0].id: judged(0), group[1].id: judged(1), group[2].id: fail})
    assert written(traced) == []


def test_while_off_nothing_is_called_and_nothing_is_checked() -> None:
    called: list[int] = []
    with rollout_trace_attr() as handle:
        pass
    backfill([handle, handle], {"what": lambda: called.append(1)})  # type: ignore[dict-item, return-value]
    assert called == []


def test_handles_that_are_not_traced_are_left_out(traced: Recording, group: list[TrajectoryHandle]) -> None:
    called: list[int] = []
    with rollout_trace_attr(trace=False) as silent:
        pass
    backfill([silent], [(silent, lambda: called.append(1))])  # type: ignore[list-item, return-value]
    backfill([silent, group[0], silent], [(silent, judged(8)), (group[0], judged(0)), (silent, judged(9))])
    backfill([silent, group[1]], {silent.id: judged(8), group[1].id: judged(1)})
    assert called == []
    assert [(name, body["trace"]["reward_data"]["wins"]) for name, _, body in written(traced)] == [
        (group[0].id, 0),
        (group[1].id, 1),
    ]
