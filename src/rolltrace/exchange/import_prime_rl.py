"""Reads the rollouts of prime-rl: `rollouts/step_N/{train|eval}/{all|effective}/traces.jsonl`, lines of verifiers.

`all` has every episode, at the step in which it arrived; `effective` has those that were trained on once more, at the
step that trained on them, with their advantages. An episode says itself at which step it was dispatched: that is its
step, and all of a group share it. So the files of a run are looked through first, to know of each trace what became of
it and which of its group it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace.exchange.episode import PastPlace, mean_advantage, place_of_episode
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import Malformed
from rolltrace.exchange.import_verifiers import FILE, Numbers, TraceStanding, sample_of_trace, traces_reader
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.opening import open_regular, read_lines

_STEP = re.compile(r"step_(\d{1,18})")


class Cohort(NamedTuple):
    """Where a file stands in the folder of a run."""

    root: Path
    step: int
    kind: str
    subset: str


class _Node(msgspec.Struct):
    advantages: list[float] | None = None


class _Trace(msgspec.Struct):
    id: str
    agent: Any = None
    nodes: list[_Node] = msgspec.field(default_factory=list)


class _Episode(msgspec.Struct):
    """What is looked at before anything is imported."""

    traces: list[_Trace]
    env: Any = None
    task: Any = None
    group: Any = None
    run: Any = None


_decoder = msgspec.json.Decoder(_Episode)


def files(folder: Path) -> list[Path]:
    """Of a run's folder, or one in it: the files with every episode, and `effective` where there is no other."""
    cohorts = {file: cohort for file in folder.rglob(FILE) if (cohort := cohort_of(file)) is not None}
    whole = {(each.step, each.kind) for each in cohorts.values() if each.subset == "all"}
    chosen = [file for file, each in cohorts.items() if each.subset == "all" or (each.step, each.kind) not in whole]
    return sorted(chosen, key=lambda file: (cohorts[file].step, cohorts[file].kind, file))


def recognise(peek: Peek) -> str | None:
    """By the folders that a file is in, and the fields of an episode."""
    why = IMPORTS["verifiers"].recognise(peek) if cohort_of(peek.path) is not None else None
    return why and f"{why}, in step_N/KIND/SUBSET"


def reader(source: Source) -> LineReader:
    """A reader of one cohort."""
    cohort = cohort_of(source.path)
    if cohort is None:
        return traces_reader(source, lambda trace_id, place: TraceStanding())
    standings = _standings_of_run(cohort.root, tuple(_stamps(cohort.root)))

    def standing_of(trace_id: str, place: PastPlace) -> TraceStanding:
        of_trace = standings.get(trace_id, TraceStanding())
        return of_trace._replace(step=cohort.step, validate=cohort.kind == "eval")

    return traces_reader(source, standing_of)


def cohort_of(file: Path) -> Cohort | None:
    """What the path of a file says; None if it is not one of prime-rl's."""
    parts = file.absolute().parts
    if len(parts) < 5 or parts[-1] != FILE:
        return None
    step, kind, subset = parts[-4:-1]
    match = _STEP.fullmatch(step)
    if match is None or kind not in ("train", "eval") or subset not in ("all", "effective"):
        return None
    return Cohort(Path(*parts[:-4]), int(match[1]), kind, subset)


def _stamps(root: Path) -> Iterator[tuple[Path, int, int]]:
    """The files of a run, in the order of its steps, and what changes when they do."""
    files_of_run = [
        (cohort, file)
        for file in root.glob(f"step_*/*/*/{FILE}")
        if file.is_file() and (cohort := cohort_of(file)) is not None
    ]
    for _, file in sorted(files_of_run, key=lambda each: (each[0].step, each[0].kind, each[0].subset)):
        stat = file.stat()
        yield file, stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=1)
def _standings_of_run(root: Path, stamps: tuple[tuple[Path, int, int], ...]) -> dict[str, TraceStanding]:
    """What the files of a run say of each trace: its number, and what became of it."""
    standings: dict[str, TraceStanding] = {}
    numbers = Numbers()
    for file, _, _ in stamps:
        cohort = cohort_of(file)
        assert cohort is not None
        for episode in _episodes(file):
            try:
                place = place_of_episode(msgspec.to_builtins(msgspec.structs.replace(episode, traces=[])))
            except Malformed:  # said when the line is imported
                continue
            for trace in episode.traces:
                of_trace = standings.get(trace.id, TraceStanding())
                if of_trace.rollout_n is None:
                    sample = sample_of_trace(place.sample_index, _name_of(trace), several=len(episode.traces) > 1)
                    step = cohort.step if place.step is None else place.step
                    number = numbers.next(step, place.validate or cohort.kind == "eval", sample)
                    of_trace = of_trace._replace(rollout_n=number)
                if cohort.subset == "effective" and cohort.kind == "train":
                    nodes = [{"advantages": node.advantages} for node in trace.nodes]
                    trained = cohort.step if _is_trainable(trace) else None
                    of_trace = of_trace._replace(trained_step=trained, advantage=mean_advantage(nodes))
                standings[trace.id] = of_trace
    return standings


def _episodes(file: Path) -> Iterator[_Episode]:
    with open_regular(file) as lines:
        for line in read_lines(lines):
            try:
                yield _decoder.decode(line or b"")
            except (msgspec.MsgspecError, ValueError, RecursionError):  # said when the line is imported
                continue


def _name_of(trace: _Trace) -> str:
    name = trace.agent.get("name") if isinstance(trace.agent, dict) else None
    return name if isinstance(name, str) and name else "agent"


def _is_trainable(trace: _Trace) -> bool:
    return not isinstance(trace.agent, dict) or trace.agent.get("trainable") is not False
