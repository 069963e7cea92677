"""Spans become records of the journal: a trace is a trajectory, each of its spans an op.

A trace of which step, sample and rollout are not told by its spans so far waits in the spool until one does, until its
root has come, or until it has been quiet for `QUIET_SEC`. What comes later goes the same way as what came before. The
same span a second time, as an exporter sends it that got no answer, is left out: known are those of this process, and
at the start those that the store got in the last hour.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Raw

import rolltrace._entry  # noqa: F401  (before `_runtime`, which it imports in its own order)
from rolltrace._own_spans import root_id, score_id
from rolltrace._runtime import Runtime
from rolltrace.collect.conventions import Op, is_own, parse_json, read
from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.collect.place import Home, TracePlace, place_of
from rolltrace.collect.spool import Spool
from rolltrace.files import is_store
from rolltrace.query import restore
from rolltrace.record import Coordinates, Error, Event, OpEnd, TrajectoryEnd, encode_record
from rolltrace.settings import Settings

QUIET_SEC = 30.0
"""How long a trace without a place waits after its last span."""
_KNOWN_AGAIN_SEC = 3600
MAX_KNOWN = 500_000
"""Spans and traces that are remembered."""
MAX_HELD_BYTES = 256 << 20
"""Of spans that wait; beyond, all are written with what is known."""
MAX_HOMES = 256
"""Experiments that are written to at once."""
_TOP_BIT = (1 << 63) - 1
_ID = re.compile("[0-9a-f]{32}")


class NotKept(Exception):
    """The journal or the spool did not take a span: the disk is full, or too many experiments are named."""


class SpanCounts(NamedTuple):
    """What became of a request."""

    recorded: int
    waiting: int
    repeated: int


@dataclass
class _Trace:
    """What is known of a trace."""

    place: TracePlace = field(default_factory=TracePlace)
    has_root: bool = False
    held: list[ReceivedSpan] = field(default_factory=list)
    last_at: float = 0.0


class Collector:
    """Takes spans. For one thread."""

    def __init__(self, settings: Settings, defaults: Home, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._defaults, self._clock = settings, defaults, clock
        self._store = Path(settings.store)
        self._op_ids: OrderedDict[int, None] = OrderedDict()
        """The ops that were recorded, or wait."""
        self._answers: OrderedDict[tuple[bytes, str], bytes] = OrderedDict()
        """Trace and id of a model's answer -> the span that told it first."""
        self._traces: OrderedDict[bytes, _Trace] = OrderedDict()
        self._homes: dict[Home, Runtime] = {}
        self._home(defaults)  # makes the store, or says why it cannot be used
        self._spool = Spool(self._store)
        self._remember_recent()
        self._take_over()

    def take(self, spans: Sequence[ReceivedSpan]) -> SpanCounts:
        """Record spans, or keep them until it is known where; either way a kill loses none of them afterwards.

        Raises:
            NotKept: some could not be written. All may be sent again: those that were written are known.
        """
        fresh: dict[bytes, dict[bytes, ReceivedSpan]] = {}
        for span in spans:
            if op_id(span.span_id) not in self._op_ids:
                fresh.setdefault(span.trace_id, {})[span.span_id] = span
                trace = self._trace(span.trace_id)
                trace.place = trace.place.or_else(place_of(span, self._defaults))
                trace.has_root = trace.has_root or not span.parent_id
        ready = {trace_id: list(each.values()) for trace_id, each in fresh.items() if self._is_ready(trace_id)}
        waiting = [span for trace_id, each in fresh.items() if trace_id not in ready for span in each.values()]
        if waiting:
            try:
                self._spool.append(waiting)
            except OSError as failure:
                raise NotKept(f"the store cannot be written: {failure.strerror or failure}") from failure
            for span in waiting:
                trace = self._trace(span.trace_id)
                trace.held.append(span)
                trace.last_at = self._clock()
                self._remember(span)
        for trace_id, of_trace in ready.items():
            self._release(trace_id, of_trace)
        self._tidy()
        recorded = sum(map(len, ready.values()))
        return SpanCounts(recorded, len(waiting), len(spans) - recorded - len(waiting))

    def settle(self, *, all_of_them: bool = False) -> int:
        """Write what has been quiet for long, with the place that the store knows for it or with none.

        Returns:
            How many spans still wait.
        """
        now = self._clock()
        quiet = [
            name
            for name, trace in self._traces.items()
            if trace.held and (all_of_them or now - trace.last_at >= QUIET_SEC)
        ]
        if quiet:
            stored = self._places_in_store(quiet)
            for trace_id in quiet:
                trace = self._traces[trace_id]
                if trace_id in stored:
                    trace.place = stored[trace_id]
                if trace.place.coordinates is None:
                    trace.place = trace.place._replace(coordinates=Coordinates())
                self._release(trace_id)
        waiting = sum(len(trace.held) for trace in self._traces.values())
        if not waiting:
            self._spool.clear()
        return waiting

    def close(self) -> None:
        """Write what waits, and close the journals."""
        try:
            self.settle(all_of_them=True)
        finally:
            self._spool.close()
            for runtime in self._homes.values():
                if runtime.recorder is not None:
                    runtime.recorder.close()

    def _is_ready(self, trace_id: bytes) -> bool:
        trace = self._trace(trace_id)
        return trace.has_root or trace.place.is_settled

    def _release(self, trace_id: bytes, more: Sequence[ReceivedSpan] = ()) -> None:
        """Write the spans of a trace that waited, and then more of it."""
        trace = self._traces[trace_id]
        ops = self._without_twins([*trace.held, *more])
        while trace.held:
            self._write(trace.held[0], trace.place, ops[trace.held[0].span_id])
            del trace.held[0]
        for span in more:
            self._write(span, trace.place, ops[span.span_id])

    def _write(self, span: ReceivedSpan, place: TracePlace, op: Op) -> None:
        recorder = self._home(place.home or self._defaults).recorder
        assert recorder is not None  # the settings of a collector always record
        where, attributes = place.coordinates or Coordinates(), span.attributes
        coordinates = Raw(encode_record(where))
        trajectory_id = place.trajectory_id or span.trace_id
        is_ours, own_root = is_own(span), root_id(span.trace_id.hex())
        error = _error(span)
        status = "error" if span.is_error or error is not None else "ok"
        if is_ours:
            status = str(attributes.get("rl.status", status))
            error = error if any(event.name == "exception" for event in span.events) else None
        times = (span.start_ns, span.end_ns, status, error)
        records: list[Any] = []
        if not is_ours or (span.span_id != own_root and attributes.get("rl.kind") != "score"):
            has_parent = span.parent_id and not (is_ours and span.parent_id == own_root)
            parent = op_id(span.parent_id) if has_parent else place.op_id
            inputs, outputs = Raw(recorder.snapshot(op.inputs)), Raw(recorder.snapshot(op.outputs))
            own_id = op_id(span.span_id)
            records.append(OpEnd(trajectory_id, coordinates, own_id, parent, op.name, op.kind, *times, inputs, outputs))
        for time_ns, score in _scores(span):
            records.append(Event(trajectory_id, coordinates, "score", time_ns, 0, Raw(encode_record(score))))
        if not span.parent_id and place.trajectory_id is None:
            parent_id = attributes.get("rl.parent_trajectory_id") if is_ours else None
            around = bytes.fromhex(parent_id) if isinstance(parent_id, str) and _ID.fullmatch(parent_id) else None
            parent_op = attributes.get("rl.parent_op_id") if around else 0
            records.append(
                TrajectoryEnd(
                    trajectory_id, coordinates, span.name, *times, around, parent_op if type(parent_op) is int else 0,
                    Raw(recorder.snapshot(_tags(span))), is_ours and attributes.get("rl.is_group") is True,
                )
            )  # fmt: skip
        for record in records:
            if not recorder.append(encode_record(record), where.step):
                raise NotKept("the journal takes no more records; see: rolltrace doctor")
        self._remember(span)
        if not span.parent_id:
            recorder.trajectory_ended()

    def _without_twins(self, spans: Iterable[ReceivedSpan]) -> dict[bytes, Op]:
        """The ops of spans of a trace, by span. A model call that several instrumentations saw is one turn: that of the
        one that tells most, with what only the others know. Those that come later are no calls of their own."""
        ops = {span.span_id: read(span) for span in spans}
        twins: dict[tuple[bytes, str], list[bytes]] = {}
        for span in spans:
            op = ops[span.span_id]
            if op.kind == "llm" and op.response_id is not None:
                twins.setdefault((span.trace_id, op.response_id), []).append(span.span_id)
        for key, span_ids in twins.items():
            fullest = max(span_ids, key=lambda span_id: ops[span_id].detail)
            turn = self._answers.setdefault(key, fullest)
            for span_id in span_ids:
                if span_id == turn:
                    continue
                if turn in ops:
                    ops[turn] = ops[turn].merge(ops[span_id])
                ops[span_id] = ops[span_id]._replace(kind="other")
        _bound(self._answers)
        return ops

    def _home(self, home: Home) -> Runtime:
        runtime = self._homes.get(home)
        if runtime is None:
            if len(self._homes) >= MAX_HOMES:
                raise NotKept(f"more than {MAX_HOMES} experiments are named")
            named = replace(self._settings, project_name=home.project, experiment_name=home.experiment, run=home.run)
            runtime = self._homes[home] = Runtime(named)
        return runtime

    def _trace(self, trace_id: bytes) -> _Trace:
        trace = self._traces.setdefault(trace_id, _Trace())
        self._traces.move_to_end(trace_id)
        return trace

    def _remember(self, span: ReceivedSpan) -> None:
        self._op_ids[op_id(span.span_id)] = None
        _bound(self._op_ids)

    def _tidy(self) -> None:
        """Forget the oldest traces; write what waits if it is too much."""
        if self._spool.size > MAX_HELD_BYTES:
            self.settle(all_of_them=True)
        while len(self._traces) > MAX_KNOWN:
            trace_id = next(iter(self._traces))
            self._release(trace_id)
            del self._traces[trace_id]
        if self._spool.size and not any(trace.held for trace in self._traces.values()):
            self._spool.clear()

    def _remember_recent(self) -> None:
        """Spans that were written before this process began may be sent once more, if their answer was lost."""
        since = time.time_ns() - _KNOWN_AGAIN_SEC * 1_000_000_000
        # Roots and late scores of our own backend are no ops; it sends them again with each new score.
        recent: tuple[tuple[str, str, str, Callable[..., int]], ...] = (
            ("op_id", "ops", "end_ns", lambda known: known),
            ("trajectory_id", "trajectories", "end_ns", lambda known: op_id(root_id(known))),
            ("trajectory_id, name, time_ns", "scores", "time_ns", lambda *known: op_id(score_id(*known))),
        )
        for names, table, newest, to_id in recent:
            rows = self._ask(
                f"SELECT {names} FROM {table} WHERE {newest} > ? AND trajectory_id IS NOT NULL "
                f"ORDER BY {newest} DESC LIMIT ?", since, MAX_KNOWN,
            )  # fmt: skip
            self._op_ids.update((to_id(*row.values()), None) for row in rows)

    def _take_over(self) -> None:
        """Spans that waited when another collector was killed, without those that it had written."""
        for path, spans in self._spool.left_behind():
            ids = sorted({op_id(span.span_id) for span in spans})
            question = f"SELECT op_id FROM ops WHERE op_id IN ({', '.join('?' * len(ids))})"
            self._op_ids.update((row["op_id"], None) for row in (self._ask(question, *ids) if ids else ()))
            self.take(spans)
            path.unlink(missing_ok=True)

    def _places_in_store(self, trace_ids: Iterable[bytes]) -> dict[bytes, TracePlace]:
        """Where trajectories stand that were recorded before."""
        ids = [trace_id.hex() for trace_id in trace_ids]
        marks = ", ".join("?" * len(ids))
        columns = "trajectory_id, project, experiment, run, step, sample_index, sample_number, rollout_n, validate"
        places = {}
        for row in self._ask(f"SELECT DISTINCT {columns} FROM ops WHERE trajectory_id IN ({marks})", *ids):
            sample = row["sample_index"] if row["sample_number"] is None else row["sample_number"]
            where = Coordinates(row["step"], sample, row["rollout_n"], bool(row["validate"]))
            places[bytes.fromhex(row["trajectory_id"])] = TracePlace(
                Home(row["project"], row["experiment"], row["run"]), where
            )
        return places

    def _ask(self, question: str, *parameters: Any) -> list[dict[str, Any]]:
        if not self._store.is_dir() or not is_store(self._store):
            return []
        from rolltrace.query import open_store  # brings the database: only where there is something to ask

        return list(open_store(self._store).sql(question, list(parameters)).rows())


def op_id(span_id: bytes) -> int:
    """The id of the op of a span: op ids have 63 bits."""
    return int.from_bytes(span_id, "big") & _TOP_BIT or 1


def _bound(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > MAX_KNOWN:
        remembered.popitem(last=False)


def _error(span: ReceivedSpan) -> Error | None:
    for event in span.events:
        if event.name == "exception":
            named = (event.attributes.get(f"exception.{part}") for part in ("type", "message", "stacktrace"))
            return Error(*("" if each is None else str(each) for each in named))
    if not span.is_error:
        return None
    kind = span.attributes.get("error.type")
    return Error(str(kind) if kind else "Error", span.message or str(span.attributes.get("error") or ""), "")


def _scores(span: ReceivedSpan) -> list[tuple[int, dict[str, Any]]]:
    """Rewards and scores among the attributes, and when they were given: `rl.scores` as our own backend sends them;
    `rl.reward`, `rl.reward_terms.NAME`, `rl.score.NAME`."""
    scores: list[dict[str, Any]] = []
    if is_own(span):
        told = restore(parse_json(span.attributes.get("rl.scores")), {})
        for score in told if isinstance(told, list) else ():
            label = score.pop("label", None)
            scores.append({**score, "value": score.get("value") if label is None else label})
    else:
        numbers = {name: float(value) for name, value in span.attributes.items() if isinstance(value, int | float)}
        terms = _under("rl.reward_terms.", numbers)
        if "rl.reward" in numbers or terms:
            scores.append({"name": "reward", "value": numbers.get("rl.reward"), "terms": terms})
        scores += [{"name": name, "value": each, "terms": {}} for name, each in _under("rl.score.", numbers).items()]
    return [(score.pop("time_ns", span.end_ns), score) for score in scores]


def _under(prefix: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Those whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in attributes.items() if name.startswith(prefix)}


def _tags(span: ReceivedSpan) -> dict[str, Any]:
    """What the root says about its trajectory."""
    if is_own(span):
        told = restore(parse_json(span.attributes.get("rl.tags")), {})
        return told if isinstance(told, dict) else {}
    tags = _under("rl.tag.", span.attributes)
    names = ("session.id", "gen_ai.conversation.id", "gen_ai.agent.name", "user.id", "tag.tags")
    tags |= {name: span.attributes[name] for name in names if span.attributes.get(name) is not None}
    tags |= {name: span.resource[name] for name in ("service.name", "host.name") if name in span.resource}
    return {**tags, "instrumentation": span.scope} if span.scope else tags
