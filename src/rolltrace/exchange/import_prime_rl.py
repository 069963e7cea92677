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
from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_verifiers import FILE, Numbers, TraceStanding, sample_of_trace, traces_reader
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import open_regular, read_lines

_STEP = re.compile(r"step_(\d{1,18})")


class Cohort(NamedTuple):
    """A file, and where it stands in the folder of a run; cohorts sort by their step."""

    step: int
    kind: str
    subset: str
    file: Path

    @property
    def root(self) -> Path:
        return self.file.absolute().parents[3]


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
    run: Any = None


_decoder = msgspec.json.Decoder(_Episode)


def files(folder: Path) -> list[Path]:
    """Of a run's folder, or one in it: the files with every episode, and `effective` where there is no other."""
    cohorts = sorted(cohort for file in folder.rglob(FILE) if (cohort := cohort_of(file)) is not None)
    whole = {(each.step, each.kind) for each in cohorts if each.subset == "all"}
    return [each.file for each in cohorts if each.subset == "all" or (each.step, each.kind) not in whole]


def recognise(peek: Peek) -> str | None:
    """By the folders that a file is in, and the fields of an episode."""
    why = IMPORTS["verifiers"].recognise(peek) if cohort_of(peek.path) is not None else None
    return why and f"{why}, in step_N/KIND/SUBSET"


def reader(source: Source) -> LineReader:
    """A reader of one cohort."""
    cohort = cohort_of(source.path)
    if cohort is None:
        return traces_reader(source, lambda trace_id, place: TraceStanding())
    in_run = (each for file in cohort.root.glob(f"step_*/*/*/{FILE}") if (each := cohort_of(file)) is not None)
    stamps = ((each, each.file.stat()) for each in sorted(in_run) if each.file.is_file())
    standings = _look_through(tuple((each, stat.st_size, stat.st_mtime_ns) for each, stat in stamps))

    def standing_of(trace_id: str, place: PastPlace) -> TraceStanding:
        known = standings.get(trace_id, TraceStanding())
        return known._replace(step=cohort.step, validate=cohort.kind == "eval")

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
    return Cohort(int(match[1]), kind, subset, file)


@lru_cache(maxsize=1)
def _look_through(stamps: tuple[tuple[Cohort, int, int], ...]) -> dict[str, TraceStanding]:
    """What the files of a run say of each trace: its number, and what became of it.

    The stamps are those files in the order of their steps, and what changes when they do.
    """
    standings: dict[str, TraceStanding] = {}
    numbers = Numbers()
    for cohort, _, _ in stamps:
        for episode in _episodes(cohort.file):
            try:
                place = place_of_episode(msgspec.to_builtins(msgspec.structs.replace(episode, traces=[])))
            except Malformed:  # said when the line is imported
                continue
            for trace in episode.traces:
                known = standings.get(trace.id, TraceStanding())
                agent = trace.agent if isinstance(trace.agent, dict) else {}
                if known.rollout_n is None:
                    name = agent.get("name")
                    name = name if isinstance(name, str) and name else "agent"
                    sample = sample_of_trace(place.sample_index, name, several=len(episode.traces) > 1)
                    step = cohort.step if place.step is None else place.step
                    known = known._replace(
                        rollout_n=numbers.next(step, place.validate or cohort.kind == "eval", sample)
                    )
                if cohort.subset == "effective" and cohort.kind == "train":
                    advantage = mean_advantage([{"advantages": node.advantages} for node in trace.nodes])
                    trained_step = None if agent.get("trainable") is False else cohort.step
                    known = known._replace(trained_step=trained_step, advantage=advantage)
                standings[trace.id] = known
    return standings


def _episodes(file: Path) -> Iterator[_Episode]:
    with open_regular(file) as lines:
        for line in read_lines(lines):
            try:
                yield _decoder.decode(line or b"")
            except (msgspec.MsgspecError, ValueError, RecursionError):  # said when the line is imported
                continue
