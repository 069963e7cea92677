"""Record what a trace of verifiers says, with the times that verifiers took."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import xxhash

import rolltrace
from rolltrace.capture import ToldTrajectory
from rolltrace.exchange import AGENT, PastOp, PastTrace
from rolltrace.record import Coordinates, Error

_ID = re.compile(r"[0-9a-f]{32}")


def trajectory_id_of(trace_id: str) -> str:
    """The id of a trace's trajectory: its own, as verifiers makes them."""
    return trace_id if _ID.fullmatch(trace_id) else xxhash.xxh3_128_hexdigest(trace_id.encode(errors="surrogatepass"))


def tell_trace(past: PastTrace, where: Coordinates) -> None:
    """Record a whole trace."""
    trajectory = ToldTrajectory(
        bytes.fromhex(trajectory_id_of(past.trace_id)), where, past.name, past.start_ns, past.tags
    )
    tell_ops(trajectory, past.ops, trajectory.reserve())
    tell_scores(trajectory.handle, past)
    trajectory.end(past.end_ns, "ok" if past.status == "ok" else "error", _error(past.error, past.traceback))


def tell_ops(trajectory: ToldTrajectory, ops: Iterable[PastOp], agent_id: int) -> None:
    """Record ops; those of the agent are inside its phase, which has this id."""
    for op in ops:
        trajectory.op(
            op.name,
            op.kind,  # type: ignore[arg-type]
            op.start_ns,
            op.end_ns,
            op.inputs,
            op.outputs,
            status=op.status,  # type: ignore[arg-type]
            error=_error(op.error, op.traceback),
            op_id=agent_id if op.name == AGENT and not op.is_inside else 0,
            parent_id=agent_id if op.is_inside else 0,
        )


def tell_scores(handle: Any, past: PastTrace) -> None:
    """Record rewards with their weights, metrics and the advantage."""
    if past.reward is not None or past.terms:
        rolltrace.score(handle, "reward", past.reward, terms=past.terms)
    if past.weights:
        rolltrace.score(handle, "reward_weights", None, terms=past.weights)
    for name, value in past.metrics.items():
        rolltrace.score(handle, name, value)
    if past.advantage is not None:
        rolltrace.score(handle, "advantage", past.advantage)
    for error in past.errors:
        handle.note(f"{error.get('type')}: {error.get('message')}", error=error)


def _error(text: str | None, traceback: str | None) -> Error | None:
    if text is None:
        return None
    kind, _, message = text.partition(": ")
    return Error(kind, message, traceback or "")
