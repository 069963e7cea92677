"""A trace for ui.perfetto.dev and chrome://tracing: one process per trajectory, one thread per thread of its ops.

Times are microseconds since the first trajectory began, which `otherData.start_ns` tells. Viewers want the events of
one thread to nest; ops that overlap, as in `asyncio.gather`, are put on further lines of the same thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from rolltrace.exchange.selection import Exported, Full, Selection
from rolltrace.exchange.text import json_text
from rolltrace.query import Op

_MAX_PAYLOAD_LENGTH = 2000


class _Lines:
    """Puts the ops of one trajectory on lines in which each lies inside or beside all others."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[int, list[int]]]] = {}
        """Thread -> its lines: number, and when the ops that are open on it end."""
        self.names: dict[int, str] = {}

    def place(self, thread: str, start_ns: int, end_ns: int) -> int:
        lines = self._lines.setdefault(thread, [])
        for number, ends in lines:
            while ends and ends[-1] <= start_ns:
                ends.pop()
            if not ends or end_ns <= ends[-1]:
                ends.append(end_ns)
                return number
        number = len(self.names) + 1
        self.names[number] = thread if not lines else f"{thread} ({len(lines) + 1})"
        lines.append((number, [end_ns]))
        return number


def write(selection: Selection, out: TextIO) -> Exported:
    """Write one JSON object; events are written as they are read."""
    begin_ns = min((row["start_ns"] for row in selection.rows), default=0)
    head = json_text({"displayTimeUnit": "ms", "otherData": {"source": "rolltrace", "start_ns": begin_ns}})
    out.write(head[:-1] + ',"traceEvents":[')
    count, comma = 0, "\n"
    numbers = iter(range(1, len(selection.rows) + 1))
    texts = selection.each(  # payloads as text, which can be cut
        lambda full: [json_text(event) for event in _events(full, next(numbers), begin_ns)]
    )
    for events in texts:
        count += 1
        for event in events:
            out.write(comma + event)
            comma = ",\n"
    out.write("\n]}\n")
    return Exported(count)


def _events(full: Full, pid: int, begin_ns: int) -> Iterator[dict[str, Any]]:
    trajectory = full.trajectory
    where = f"step {trajectory.step} sample {trajectory.sample_index} rollout {trajectory.rollout_n}"
    label = f"{trajectory.name} {trajectory.trajectory_id[:8]} ({where})"
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": label}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "ts": 0, "args": {"sort_index": pid}}
    ops = sorted(trajectory.walk(), key=lambda op: (op.start_ns, -(op.end_ns or 1 << 62)))
    times = [trajectory.end_ns, *(op.start_ns for op in ops), *(op.end_ns for op in ops)]
    last_ns = max(time for time in (trajectory.start_ns, *times) if time is not None)
    lines = _Lines()
    for op in ops:
        end_ns = op.end_ns if op.end_ns is not None else last_ns  # it never ended: as long as anything is known
        tid = lines.place(full.spans[op.op_id]["thread"] or "main", op.start_ns, end_ns)
        yield {
            "ph": "X",
            "name": op.name,
            "cat": op.kind,
            "pid": pid,
            "tid": tid,
            "ts": (op.start_ns - begin_ns) / 1000,
            "dur": max(end_ns - op.start_ns, 0) / 1000,
            "args": _arguments(op, full),
        }
    instants = [(score.name, score.time_ns, score.shown) for score in trajectory.scores]
    instants += [("transition", step.time_ns, step.reward) for step in trajectory.transitions]
    for name, time_ns, value in instants:
        at = {"pid": pid, "tid": 1, "ts": (time_ns - begin_ns) / 1000, "s": "p"}
        yield {"ph": "i", "name": name, "cat": "event", **at, "args": {"value": value}}
    for tid, thread in lines.names.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": thread}}


def _arguments(op: Op, full: Full) -> dict[str, Any]:
    span = full.spans[op.op_id]
    plain = ("status", "error", "policy_version", "finish_reason", "prompt_tokens", "response_tokens", "worker")
    shown = {name: span[name] for name in plain if span[name] is not None}
    # The JSON of the store, in which token lists are one word: a timeline is no place for them.
    payloads = {} if op.content is None else op.content.halves
    if op.pruned is not None:
        payloads = {"inputs": str(op.pruned)}
    return {
        **shown,
        **{
            name: text
            if len(text) <= _MAX_PAYLOAD_LENGTH
            else f"{text[:_MAX_PAYLOAD_LENGTH]}... ({len(text)} characters)"
            for name, text in payloads.items()
        },
    }
