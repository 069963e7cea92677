"""Where a few letters could lead: a step, a sample, a trajectory, an experiment, a filter, a text to search for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from rolltrace.errors import FilterError
from rolltrace.query.filters import compile_where
from rolltrace.query.model.lists import JumpCandidate
from rolltrace.query.scope import Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_MOST = 6
_HEXADECIMAL = re.compile(r"[0-9a-f]{4,32}")


def jump_targets(store: Store, text: str, scope: Scope | None = None) -> list[JumpCandidate]:
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
            0, JumpCandidate("filter", wanted, "filter", f"{_page_of(scope)}?where={quote(wanted, safe='')}")
        )
    except FilterError:
        pass
    place = {"project": scope.project, "experiment": scope.experiment}
    within = "".join(f"&{key}={quote(value, safe='')}" for key, value in place.items() if value is not None)
    targets.append(JumpCandidate("search", wanted, "search all text", f"/search?q={quote(wanted, safe='')}{within}"))
    return targets


def _page_of(scope: Scope) -> str:
    """The address of the page of a scope: an experiment, a step or a sample."""
    if scope.experiment is None:
        return "/"
    address = f"/e/{_in_path(scope.project or '')}/{_in_path(scope.experiment)}"
    if scope.step is not None:
        address += f"/step/{scope.step}"
    return address if scope.sample_index is None else f"{address}/sample/{_in_path(str(scope.sample_index))}"


def _in_path(name: str) -> str:
    """A name as a part of a page's path: the rules of viewer/src/model/route.ts."""
    if name in ("", "~"):
        return "~" if name == "" else "%7E"
    if not name.strip("."):
        return name.replace(".", "%252E")
    return quote(name.replace("%", "%25").replace("/", "%2F"), safe="")


def _steps(store: Store, wanted: str, scope: Scope) -> list[JumpCandidate]:
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
        JumpCandidate(
            "step", f"step {row['step']}", f"{row['n']} trajectories",
            _page_of(Scope(row["project"], row["experiment"], row["step"])),
        )
        for row in rows
    ]  # fmt: skip


def _samples(store: Store, wanted: str, scope: Scope) -> list[JumpCandidate]:
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
        JumpCandidate(
            "sample", f"sample {row['sample']}", f"{row['n']} rollouts in step {scope.step}",
            _page_of(Scope(row["project"], row["experiment"], scope.step, row["sample"] or "")),
        )
        for row in rows
    ]  # fmt: skip


def _trajectories(store: Store, wanted: str) -> list[JumpCandidate]:
    if not _HEXADECIMAL.fullmatch(wanted.lower()):
        return []
    rows = store._ask(
        "SELECT trajectory_id, project, experiment, step, sample_index, rollout_n, _is_int FROM _listing "
        f"WHERE trajectory_id BETWEEN ? AND ? ORDER BY 1 LIMIT {_MOST}",
        [wanted.lower().ljust(32, "0"), wanted.lower().ljust(32, "f")],
    )
    return [
        JumpCandidate(
            "trajectory", row["trajectory_id"][:8],
            f"{row['experiment']} step {row['step']} sample {row['sample_index']} rollout {row['rollout_n']}",
            f"/t/{row['trajectory_id']}",
        )
        for row in rows
    ]  # fmt: skip


def _experiments(store: Store, wanted: str) -> list[JumpCandidate]:
    low = wanted.casefold()
    rows = [row for row in store.experiments() if low in f"{row['project']}/{row['experiment']}".casefold()]
    return [
        JumpCandidate(
            "experiment", f"{row['project']} / {row['experiment']}", f"{row['trajectories']} trajectories",
            _page_of(Scope(row["project"], row["experiment"])),
        )
        for row in reversed(rows[-_MOST:])
    ]  # fmt: skip
