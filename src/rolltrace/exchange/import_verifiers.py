"""Reads `traces.jsonl` of verifiers: one episode a line, one trajectory for each trace in it.

`episode` says what a trace tells; here it becomes rows. The same trace is the same trajectory, in whatever file it is,
as long as project and experiment are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from rolltrace.exchange.draft import Draft, ImportedRow, op_id
from rolltrace.exchange.episode import AGENT, PastPlace, PastTrace, place_of_episode, read_trace, traces_of
from rolltrace.exchange.fields import Malformed, leave
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, json_records
from rolltrace.record import NOTES, SampleIndex

FILE = "traces.jsonl"


class TraceStanding(NamedTuple):
    """What is known of a trace from elsewhere than its own line."""

    step: int | None = None
    validate: bool = False
    rollout_n: int | None = None
    trained_step: int | None = None
    advantage: float | None = None


class Numbers:
    """Which rollout of its sample a trace is: the next one."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int | None, bool, SampleIndex | None]] = Counter()

    def next(self, step: int | None, validate: bool, sample: SampleIndex | None) -> int:
        self._counts[step, validate, sample] += 1
        return self._counts[step, validate, sample] - 1


def reader(source: Source) -> LineReader:
    """A reader of episodes."""
    return traces_reader(source, lambda trace_id, place: TraceStanding())


def traces_reader(source: Source, standing_of: Callable[[str, PastPlace], TraceStanding]) -> LineReader:
    """A reader of episodes, each of whose traces stands where it says itself or, if it does not, where this says."""
    project, experiment = source.target.named()
    source.split = _traces
    numbers = Numbers()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        episode, trace = record.get("episode"), record.get("trace")
        if not isinstance(episode, dict) or not isinstance(trace, dict):
            raise Malformed("an episode and a trace must be objects")
        place, past = place_of_episode(episode), read_trace(trace, episode, source.start_ns(line))
        standing = standing_of(past.trace_id, place)
        step = place.step if place.step is not None else standing.step
        validate = place.validate or standing.validate or source.target.validate
        sample = sample_of_trace(place.sample_index, past.name, several=record.get("several") is True)
        number = numbers.next(step, validate, sample) if standing.rollout_n is None else standing.rollout_n
        trajectory_id = xxhash.xxh3_128_hexdigest(repr((past.trace_id, project, experiment)).encode())
        draft = source.draft(
            line, past.name, trajectory_id, start_ns=past.start_ns, step=step, sample_index=sample, rollout_n=number,
            validate=validate, run=place.run,
        )  # fmt: skip
        _add_ops(draft, past)
        _add_scores(draft, past, standing)
        return draft.finish(
            past.tags, end_ns=past.end_ns, error=past.error, status=past.status, traceback=past.traceback
        )

    return read


def sample_of_trace(sample: SampleIndex | None, agent: str, *, several: bool) -> SampleIndex | None:
    """Where several agents took part in an episode, each has samples of its own."""
    return f"{sample}/{agent}" if several and sample is not None else sample


def _traces(path: Path) -> Iterator[Line]:
    """The traces of the episodes in a file; a trace that stands alone is an episode of one."""
    for line in json_records(path):
        if not isinstance(line.value, dict):
            yield line
        elif "traces" not in line.value and "nodes" not in line.value:
            yield line._replace(problem='not an episode of verifiers: it has no "traces"')
        else:
            try:
                is_alone = "traces" not in line.value
                episode = {"task": line.value.get("task")} if is_alone else leave(line.value, ("traces",))
                traces = [line.value] if is_alone else traces_of(line.value)
            except Malformed as error:
                yield line._replace(problem=str(error))
                continue
            for at, trace in enumerate(traces):
                value = {"episode": episode, "trace": trace, "several": len(traces) > 1}
                yield line._replace(value=value, raw=line.raw if at == 0 else b"")


def _add_ops(draft: Draft, past: PastTrace) -> None:
    agent = next((at for at, op in enumerate(past.ops) if op.name == AGENT and not op.is_inside), None)
    for op in past.ops:
        parent_id = None if agent is None or not op.is_inside else op_id(draft.place.trajectory_id, agent)
        draft.op(
            op.name, op.kind, op.start_ns, op.end_ns, inputs=op.inputs, outputs=op.outputs, status=op.status,
            error=op.error, traceback=op.traceback, parent_id=parent_id,
        )  # fmt: skip
    for error in past.errors:
        body = {"text": f"{error.get('type')}: {error.get('message')}", "fields": {"error": error}}
        draft.event(NOTES, event="note", body=body)


def _add_scores(draft: Draft, past: PastTrace, standing: TraceStanding) -> None:
    draft.reward(past.reward, past.terms)
    if past.weights:
        draft.score("reward_weights", terms=past.weights)
    for name, value in past.metrics.items():
        draft.score(name, value)
    draft.advantage(past.advantage if standing.advantage is None else standing.advantage)
    if standing.trained_step is not None:
        draft.score("fate", label="trained", trained_step=standing.trained_step)
