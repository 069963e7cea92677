"""What Weave's client gives, compared with what the store has."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import Any

from rolltrace.backends.weave.calls import call_id
from rolltrace.query import Op, Store, Trajectory
from rolltrace.record import to_json


def plain(value: Any) -> Any:
    """Without Weave's own dicts and lists, and without our backslashes."""
    if isinstance(value, dict):
        return {str(key).removeprefix("\\"): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.removeprefix("\\") if isinstance(value, str) else value


def trajectories_of(store: Store, **conditions: Any) -> list[Trajectory]:
    return [store.trajectory(row["trajectory_id"]) for row in store.trajectories(**conditions).rows()]


def assert_same(client: Any, trajectories: list[Trajectory]) -> None:
    """Weave has the calls of these, each once, and no others."""
    calls = list(client.get_calls())
    assert len(trajectories) > 0
    expected = Counter(
        name
        for each in trajectories
        for name in (call_id(each.trajectory_id), *(call_id(each.trajectory_id, op.op_id) for op in each.walk()))
    )
    assert Counter(call.id for call in calls) == expected
    by_id = {call.id: call for call in calls}
    for trajectory in trajectories:
        root = by_id[call_id(trajectory.trajectory_id)]
        assert (root.trace_id, root.parent_id) == (root.id, None)
        assert_same_ending(root, trajectory)
        assert root.attributes["experiment_name"] == trajectory.experiment
        for top in trajectory.ops:
            _assert_same_op(by_id, trajectory, top, root.id)


def _assert_same_op(by_id: dict[str, Any], trajectory: Trajectory, op: Op, parent_id: str) -> None:
    call = by_id[call_id(trajectory.trajectory_id, op.op_id)]
    assert (call.parent_id, call.func_name) == (parent_id, op.name)
    assert plain(call.inputs) == to_json(op.inputs)
    assert plain(call.output) == to_json(op.outputs)
    assert (call.attributes["kind"], call.attributes["step"]) == (op.kind, trajectory.step)
    assert_same_ending(call, op)
    for child in op.children:
        _assert_same_op(by_id, trajectory, child, call.id)


def assert_same_ending(call: Any, of: Op | Trajectory) -> None:
    assert call.attributes["status"] == of.status
    assert nanoseconds(call.started_at) == of.start_ns // 1000 * 1000
    if of.end_ns is not None:
        assert nanoseconds(call.ended_at) == of.end_ns // 1000 * 1000
    if of.status == "ok":
        assert call.exception is None
    else:
        told = json.loads(call.exception)
        assert of.error in (f"{told['type']}: {told['message']}", None)


def nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000


def scores_in(client: Any) -> dict[str, dict[str, Any]]:
    """Root call -> the scores that it has in Weave, by name. Fails if there are two of a name."""
    found: dict[str, dict[str, Any]] = {}
    for call in client.get_calls(filter={"trace_roots_only": True}, include_feedback=True):
        given = [each for each in call.summary["weave"]["feedback"] if each["creator"] == "rolltrace"]
        names = [each["feedback_type"].removeprefix("wandb.runnable.") for each in given]
        assert len(set(names)) == len(names)
        found[call.id] = {name: plain(each["payload"]["output"]) for name, each in zip(names, given)}
    return found
