"""`backfill`: what is known of steps only later, as for preference groups whose responses are judged together.

Matched by id and checked as a whole before anything is written: a judgement on the wrong trajectory is worse than none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import TrajectoryHandle
from rolltrace.capture.transition import RolloutTrace, plain_number, transition_body
from rolltrace.errors import ConfigError

Which = TrajectoryHandle | str
Trace = RolloutTrace | Mapping[str, Any]
MadeTrace = Trace | Callable[[], Trace]
_ID = re.compile(r"[0-9a-f]{32}")
_MAX_NAMED = 4


def backfill(
    trajectories: Iterable[Which],
    traces: Mapping[Any, MadeTrace] | Iterable[tuple[Which, MadeTrace]],
    *,
    rewards: Mapping[Any, Any] | Iterable[tuple[Which, Any]] | None = None,
) -> None:
    """Add what became known later to the last step of each trajectory.

        backfill(handles, {handle.id: RolloutTrace(reward_data=judgement) for handle, judgement in judged})

    Fields that the step has already are not changed; what differs is kept beside them. While tracing is off, and for
    handles that are not traced, nothing is built and nothing is checked.

    Args:
        trajectories: Handles of `rollout_trace_attr`, or ids of 32 hexadecimal digits.
        traces: One for each of them: a mapping from ids (or handles), or pairs `(id or handle, trace)` in the same
            order. A function is called to make the trace; what it raises is raised here, and nothing is written.
        rewards: Numbers, given in the same way.

    Raises:
        ConfigError: they do not belong together one to one. Nothing is written then.
    """
    recorder = scope.recorder
    if recorder is None:
        return
    if isinstance(trajectories, TrajectoryHandle | str | Mapping):
        raise ConfigError(f"backfill needs a list of trajectories, not {type(trajectories).__name__}")
    keyed = [(_id_of(each), each) for each in trajectories]
    targets = {name: each for name, each in keyed if name}
    if keyed and not targets:
        return
    ids = list(targets)
    _check("trajectories", ids, [name for name, _ in keyed if name])
    chosen = _in_order("traces", ids, traces)
    numbers = [None] * len(ids) if rewards is None else _in_order("rewards", ids, rewards)
    built_traces = [_trace_of(name, value) for name, value in zip(ids, chosen)]
    numbers = [_number(name, value) for name, value in zip(ids, numbers)]
    try:
        bodies: list[tuple[TrajectoryHandle, Raw]] = []
        for (name, target), trace, reward in zip(targets.items(), built_traces, numbers):
            if isinstance(target, TrajectoryHandle):
                handle = target
            else:
                handle = TrajectoryHandle(recorder, trace_id=bytes.fromhex(name))
            bodies.append((handle, transition_body(recorder, trace, {"reward": reward, "backfill": True})))
        for handle, body in bodies:
            handle._write(recorder, "transition", body)
    except Exception:
        caught("backfill")


def _id_of(which: Any) -> str:
    """The id; empty for a handle that is not traced."""
    if isinstance(which, TrajectoryHandle):
        return which.id
    text = which.strip().lower() if isinstance(which, str) else None
    if text is None or (text and not _ID.fullmatch(text)):
        raise ConfigError(
            f"backfill knows trajectories by their handle or `handle.id`, 32 hex digits, not {which!r:.80}"
        )
    return text


def _in_order(what: str, ids: list[str], by_id: Any) -> list[Any]:
    """The values in the order of the ids, once it is sure that each has exactly one."""
    ordered = not isinstance(by_id, Mapping)
    pairs = [_pair(f"{what}[{at}]", item) for at, item in enumerate(by_id)] if ordered else list(by_id.items())
    keyed = [(name, value) for name, value in ((_id_of(key), value) for key, value in pairs) if name]
    named_ids = [name for name, _ in keyed]
    _check(what, ids, named_ids)
    for at, (one, other) in enumerate(zip(named_ids, ids)):
        if ordered and one != other:
            raise ConfigError(
                f"{what} are in another order than trajectories: {what}[{at}] is of {one}, trajectories[{at}] is "
                f"{other}; put them in order, or give a mapping: {{handle.id: ...}}. Nothing was written"
            )
    values = dict(keyed)
    return [values[name] for name in ids]


def _check(what: str, ids: list[str], named_ids: list[str]) -> None:
    """Whether these are the ids, each once."""
    counts = Counter(named_ids)
    problems = {
        f"{what} name twice": [name for name, count in counts.items() if count > 1],
        f"{what} are missing for": [name for name in ids if name not in counts],
        f"{what} are too many, there is no trajectory": [name for name in counts if name not in set(ids)],
    }
    complaints = [f"{problem} {_listed(names)}" for problem, names in problems.items() if names]
    if complaints:
        raise ConfigError(
            f"{'; '.join(complaints)} ({len(named_ids)} {what}, {len(ids)} trajectories). Nothing was written"
        )


def _listed(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _pair(place: str, item: Any) -> tuple[Any, Any]:
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], TrajectoryHandle | str):
        return item[0], item[1]
    raise ConfigError(
        f"{place} is a {type(item).__name__} without an id, so it could belong to any trajectory; write "
        "[(handle, ...), ...] or {handle.id: ...}. Nothing was written"
    )


def _trace_of(name: str, value: Any) -> Trace:
    trace = value() if callable(value) else value
    if not isinstance(trace, RolloutTrace | Mapping):
        raise ConfigError(
            f"the trace of {name} must be a RolloutTrace or a dict of its fields, not {type(trace).__name__}. "
            "Nothing was written"
        )
    return trace


def _number(name: str, value: Any) -> Any:
    number = plain_number(value)
    if number is not None and not isinstance(number, int | float):
        raise ConfigError(f"the reward of {name} must be a number, not {number!r:.80}. Nothing was written")
    return number
