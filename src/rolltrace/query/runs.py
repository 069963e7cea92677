"""Which runs an answer is about: of each step the newest run that reached it, unless somebody asks for others.

An experiment that is started again, or goes on from a checkpoint, has several runs, and may have several attempts at
one step. The older ones are `superseded`: kept, counted, and left out of answers. Training and validation are looked at
apart, because a run that goes on often validates first. What has neither step nor sample repeats nothing, and is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rolltrace.errors import QueryError

RUN_FIELDS = frozenset({"run", "superseded"})
"""A filter on one of these decides itself which runs it means."""

STEP_KEY = ("project", "experiment", "step", "validate")
"""What the attempts at one step have in common; training and validation are apart."""


class RunChoice(NamedTuple):
    """A choice of runs, as a condition on trajectories or groups."""

    sql: str
    parameters: list[Any]
    hides: bool
    """Older attempts are left out."""


def choose_runs(of: str, run: str | None, all_runs: bool, filtered_by: Sequence[str] = ()) -> RunChoice:
    """The condition that a choice of runs stands for.

    Args:
        of: The alias of the table in the question.
        run: Only this one.
        all_runs: All of them.
        filtered_by: The fields that a filter asks about.

    Raises:
        QueryError: a run and all of them.
    """
    if run is not None and all_runs:
        raise QueryError(f"choose one: run={run!r} or all_runs=True")
    if run is not None:
        if not isinstance(run, str):
            raise QueryError(f"run must be the id of a run, a text; not {run!r:.60}")
        return RunChoice(f"{of}.run = ?", [run], hides=False)
    if all_runs or not RUN_FIELDS.isdisjoint(filtered_by):
        return RunChoice("true", [], hides=False)
    return RunChoice(f"NOT {of}.superseded", [], hides=True)


def newest_runs(listing: str) -> str:
    """SQL: the newest run of each step of a listing, by when it began; what has no run counts as older than any."""
    key, newness = ", ".join(STEP_KEY), "{'named': run_key <> '', 'began': began, 'run': run_key}"
    return (
        f"SELECT {key}, arg_max(run_key, {newness}) AS newest_run FROM ("
        f"SELECT {key}, coalesce(run, '') AS run_key, min(coalesce(run_ns, start_ns)) AS began FROM {listing} "
        f"GROUP BY ALL) GROUP BY {key}"
    )


SAME_STEP = " AND ".join(f"every.{name} IS NOT DISTINCT FROM newest.{name}" for name in STEP_KEY)
"""Joins a trajectory of `every` with a row of `newest_runs`."""


class OlderRuns(NamedTuple):
    """What an answer leaves out, because a newer run reached the same step."""

    trajectories: int
    runs: int

    def __str__(self) -> str:
        trajectories = "1 trajectory" if self.trajectories == 1 else f"{self.trajectories} trajectories"
        runs = "an older run" if self.runs == 1 else f"{self.runs} older runs"
        return f"{trajectories} of {runs} hidden"


NO_OLDER_RUNS = OlderRuns(0, 0)
