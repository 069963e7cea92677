"""Where a few letters could lead: a step, a sample, a trajectory, an experiment, a filter, a text to search for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rolltrace.errors import FilterError
from rolltrace.query.filters import compile_where
from rolltrace.query.scope import Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_MOST = 6
_HEXADECIMAL = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True)
class JumpTarget:
    """A place that could be meant."""

    kind: Literal["experiment", "step", "sample", "trajectory", "filter", "search"]
    label: str
    detail: str = ""
    project: str | None = None
    experiment: str | None = None
    step: int | None = None
    sample_index: str | None = None
    trajectory_id: str | None = None
    text: str | None = None


def jump_targets(store: Store, text: str, scope: Scope | None = None) -> list[JumpTarget]:
    """What these letters could mean, the most likely first. Steps and samples are looked for in the experiment of the
    scope, samples in its step."""
    scope, wanted = scope or Scope(), text.strip()
    if not wanted:
        return []
    targets = [*_steps(store, wanted, scope), *_samples(store, wanted, scope), *_trajectories(store, wanted)]
    targets += _experiments(store, wanted)
    try:
        compile_where(wanted)
        targets.insert(
            0, JumpTarget("filter", wanted, "filter", scope.project, scope.experiment, scope.step, text=wanted)
        )
    except FilterError:
        pass
    targets.append(JumpTarget("search", wanted, "search all text", scope.project, scope.experiment, text=wanted))
    return targets


def _steps(store: Store, wanted: str, scope: Scope) -> list[JumpTarget]:
    number = re.fullmatch(r"(?:step\s*)?(-?\d{1,18})", wanted, re.IGNORECASE)
    if number is None or scope.experiment is None:
        return []
    rows = Scope(project=scope.project, experiment=scope.experiment).selected().ask(
        store,
        "SELECT t.project, t.experiment, t.step, count(*) AS n FROM {rows} AND starts_with(t.step::VARCHAR, ?) "
        f"GROUP BY t.project, t.experiment, t.step ORDER BY t.step = ? DESC, t.step LIMIT {_MOST}",
        number[1], int(number[1]),
    )  # fmt: skip
    return [
        JumpTarget("step", f"step {row['step']}", f"{row['n']} trajectories", row["project"], row["experiment"],
                   row["step"])
        for row in rows
    ]  # fmt: skip


def _samples(store: Store, wanted: str, scope: Scope) -> list[JumpTarget]:
    if scope.experiment is None or scope.step is None:
        return []
    name = re.sub(r"^sample\s+", "", wanted, flags=re.IGNORECASE)
    rows = Scope(project=scope.project, experiment=scope.experiment, step=scope.step).selected().ask(
        store,
        "SELECT t.project, t.experiment, t.sample_index AS sample, count(*) AS n FROM {rows} "
        "AND starts_with(lower(t.sample_index), lower(?)) GROUP BY t.project, t.experiment, t.sample_index "
        f"ORDER BY t.sample_index = ? DESC, length(t.sample_index), t.sample_index LIMIT {_MOST}",
        name, name,
    )  # fmt: skip
    return [
        JumpTarget("sample", f"sample {row['sample']}", f"{row['n']} rollouts in step {scope.step}", row["project"],
                   row["experiment"], scope.step, row["sample"])
        for row in rows
    ]  # fmt: skip


def _trajectories(store: Store, wanted: str) -> list[JumpTarget]:
    if not _HEXADECIMAL.fullmatch(wanted.lower()):
        return []
    rows = store._ask(
        "SELECT trajectory_id, project, experiment, step, sample_index, rollout_n, _is_int FROM _listing "
        f"WHERE trajectory_id BETWEEN ? AND ? ORDER BY 1 LIMIT {_MOST}",
        [wanted.lower().ljust(32, "0"), wanted.lower().ljust(32, "f")],
    )
    return [
        JumpTarget(
            "trajectory", row["trajectory_id"][:8],
            f"{row['experiment']} step {row['step']} sample {row['sample_index']} rollout {row['rollout_n']}",
            row["project"], row["experiment"], row["step"], str(row["sample_index"]), row["trajectory_id"],
        )
        for row in rows
    ]  # fmt: skip


def _experiments(store: Store, wanted: str) -> list[JumpTarget]:
    low = wanted.casefold()
    rows = [row for row in store.experiments() if low in f"{row['project']}/{row['experiment']}".casefold()]
    return [
        JumpTarget("experiment", f"{row['project']} / {row['experiment']}", f"{row['trajectories']} trajectories",
                   row["project"], row["experiment"])
        for row in reversed(rows[-_MOST:])
    ]  # fmt: skip
