"""What `rolltrace store prune`, `rm` and `retain` take, and what that costs: looked up before somebody agrees to it.

Groups of trajectories lose their payloads whole or not at all. A group is all rollouts of one sample in one step of one
run, and what was recorded for them together. What was begun inside a trajectory belongs to its group; a trajectory
without a sample is a group of its own. A group that is going on, or is not sent yet, is left alone.

Filters mean what they mean in a listing: of each step the newest run, unless they ask about runs. Age and size are
about all runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._amounts import age_sec, size_of
from rolltrace._guard import logger
from rolltrace.tables import TABLE_SCHEMAS, DataFile, Place, TableStore, address_in, find_prunable, open_scan, read_rows

if TYPE_CHECKING:
    import duckdb

    from rolltrace.query import Store

Row = Mapping[str, Any]
"""The summary of a trajectory, or what was recorded for a group: from `read_summaries`."""

WAITING = "waiting"
"""Why a group is left alone for now: one of its trajectories runs, is not sent yet, or lacks its reward."""
_COLUMNS = (
    "trajectory_id, project, experiment, step, run, validate, sample_index, status, start_ns, end_ns, duration_s, "
    "parent_trajectory_id"
)


class Group(NamedTuple):
    """Trajectories that stay together."""

    sample: tuple[Any, ...]
    roots: list[Row]
    """Those that were not begun inside another: the rollouts."""
    rows: list[Row]
    """All of them."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row["trajectory_id"] for row in self.rows)


class Choice(NamedTuple):
    """What becomes of each trajectory."""

    groups: list[frozenset[str]]
    """The groups that lose their payloads."""
    keep: dict[str, str]
    """Why each other trajectory is kept."""

    @property
    def drop(self) -> set[str]:
        return set().union(*self.groups)


def choose_groups(
    groups: Iterable[Group], why_kept: Callable[[Group], str | None], *, unsent: Container[str] = ()
) -> Choice:
    """Choose among groups; those that are still going on, or `unsent`, are left alone. `why_kept` says why one is
    kept; None if it is not."""
    choice = Choice([], {})
    for group in groups:
        is_waiting = any(row["status"] == "running" or row["trajectory_id"] in unsent for row in group.rows)
        why = WAITING if is_waiting else why_kept(group)
        if why is None:
            choice.groups.append(group.ids)
        else:
            choice.keep.update(dict.fromkeys(group.ids, why))
    return choice


def groups_of(rows: Iterable[Row]) -> list[Group]:
    """The groups of these trajectories."""
    rows = list(rows)
    by_id = {row["trajectory_id"]: row for row in rows}
    groups: dict[tuple[Any, ...], Group] = {}
    for row in rows:
        root, passed = row, {row["trajectory_id"]}
        while not row.get("is_group") and (outer := by_id.get(root.get("parent_trajectory_id") or "")) is not None:
            if outer["trajectory_id"] in passed:
                break
            root = outer
            passed.add(root["trajectory_id"])
        sample = (str(root["sample_index"]),) if root["sample_index"] is not None else (None, root["trajectory_id"])
        key = (root["project"], root["experiment"], root.get("run"), root["step"], root["validate"], *sample)
        group = groups.setdefault(key, Group(sample, [], []))
        group.rows.append(row)
        if row is root and not row.get("is_group"):
            group.roots.append(row)
    return list(groups.values())


def read_summaries(tables: TableStore, places: Collection[Place] | None = None) -> list[Row]:
    """All trajectories of a store or of some steps, and what was recorded for their groups (`is_group`).

    A step of which a file is damaged is left out: who knows what that says about the others.
    """
    import duckdb

    files = {
        name: [file for file in tables.files(name) if places is None or file.place in places]
        for name in ("trajectories", "scores", "group_records")
    }
    with open_scan() as connection:
        try:
            return _read(connection, tables, files)
        except duckdb.Error:
            pass
        rows = []
        for place in sorted({file.place for file in files["trajectories"]}, key=str):
            own = {name: [file for file in listed if file.place == place] for name, listed in files.items()}
            try:
                rows += _read(connection, tables, own)
            except duckdb.Error as error:
                logger.warning("step %s of %s is left out: %s", place.step, place.experiment, error)
        return rows


def _read(connection: duckdb.DuckDBPyConnection, tables: TableStore, files: Mapping[str, list[DataFile]]) -> list[Row]:
    trajectories = read_rows(connection, tables.address, "trajectories", files["trajectories"], files["scores"])
    records = read_rows(connection, tables.address, "group_records", files["group_records"])
    answer = connection.execute(
        f"SELECT {_COLUMNS}, reward, coalesce(flags, []) AS flags, false AS is_group FROM {trajectories} UNION ALL "
        f"SELECT {_COLUMNS}, NULL, [], true FROM {records}"
    )
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row)) for row in answer.fetchall()]


class Foreseen(NamedTuple):
    """What would go."""

    trajectories: int
    """Those that have something to lose."""
    groups: int
    bytes: int
    """About how much smaller the store would be."""


class Plan(NamedTuple):
    """What `rolltrace store prune` would do, for somebody to agree to."""

    chosen: dict[Place, set[str]]
    """The trajectories of groups that lose their payloads."""
    running: int
    """How many others are left alone, because their groups are going on."""
    foreseen: Foreseen
    unsent: int
    """How many of these a backend is still to be given: it would get them without payloads."""


def plan_pruning(
    store: Store,
    *,
    where: str | None = None,
    older_than: str | None = None,
    max_size: str | None = None,
    whole: bool = False,
) -> Plan:
    """What goes by one of `where`, `older_than` and `max_size`, and what that would cost. Changes nothing.

    Raises:
        FilterError, ConfigError: it cannot be understood.
    """
    from rolltrace.keeper.pending import unsent  # loads the query side, which a drainer has no use for

    store.refresh()
    tables = TableStore(address_in(store.path))
    rows = read_summaries(tables)
    groups = groups_of(rows)
    if where is not None:
        ids = set(store.trajectories(where=where).arrow()["trajectory_id"].to_pylist())
        groups = [group for group in groups if not ids.isdisjoint(group.ids)]
    elif older_than is not None:
        limit_ns = time.time_ns() - round(age_sec("--older-than", older_than) * 1e9)
        groups = [group for group in groups if all(_end_ns(row) < limit_ns for row in group.rows)]
    else:
        places = _above_size(tables, rows, size_of("--max-size", max_size))
        groups = [group for group in groups if _place(group.rows[0]) in places]
    choice = choose_groups(groups, lambda group: None)
    chosen = _by_place(rows, choice.drop)
    foreseen = foresee(store.path, choice.groups, chosen, whole=whole)
    return Plan(chosen, len(choice.keep), foreseen, len(choice.drop & unsent(store)) if choice.groups else 0)


class Removal(NamedTuple):
    """What `rolltrace store rm` would delete."""

    chosen: dict[Place, set[str]]
    whole: dict[str, str]
    """The project, experiment or run that goes whole."""
    running: int
    """How many trajectories are still running, and left alone."""


def plan_removal(store: Path, ids: Collection[str], whole: Mapping[str, str] = MappingProxyType({})) -> Removal:
    """Those of these trajectories that can be deleted now; `whole` names the project, experiment or run that goes
    whole, with what was recorded for its groups. Changes nothing."""
    rows = [
        row
        for row in read_summaries(TableStore(address_in(store)))
        if row["trajectory_id"] in ids or (whole and all(row[name] == value for name, value in whole.items()))
    ]
    ended = {row["trajectory_id"] for row in rows if row["status"] != "running"}
    running = len(rows) - len(ended)
    return Removal(_by_place(rows, ended), {} if running else dict(whole), running)


def foresee(
    store: Path, groups: Collection[frozenset[str]], chosen: Mapping[Place, Collection[str]], *, whole: bool
) -> Foreseen:
    """What pruning these groups would remove; `chosen` has their trajectories by place."""
    losing = find_prunable(TableStore(address_in(store)), chosen, whole=whole)
    return Foreseen(len(losing.ids), sum(not losing.ids.isdisjoint(group) for group in groups), losing.bytes)


def _by_place(rows: Collection[Row], ids: Collection[str]) -> dict[Place, set[str]]:
    """Where some of these trajectories are."""
    places: dict[Place, set[str]] = {}
    for row in rows:
        if row["trajectory_id"] in ids:
            places.setdefault(_place(row), set()).add(row["trajectory_id"])
    return places


def _above_size(tables: TableStore, rows: list[Row], limit: int) -> set[Place]:
    """The steps that ended first, until what is left is below the limit."""
    ends: dict[Place, int] = {}
    for row in rows:
        ends[_place(row)] = max(_end_ns(row), ends.get(_place(row), 0))
    sizes: dict[Place, int] = {}
    for schema in TABLE_SCHEMAS:
        for file in tables.files(schema.name):
            sizes[file.place] = sizes.get(file.place, 0) + file.size_bytes
    left = sum(sizes.values())
    places: set[Place] = set()
    for place in sorted(ends, key=ends.__getitem__):
        if left <= limit:
            break
        places.add(place)
        left -= sizes.get(place, 0)
    return places


def _place(row: Row) -> Place:
    return Place(row["project"], row["experiment"], row["step"])


def _end_ns(row: Row) -> Any:
    return row["end_ns"] or row["start_ns"] or 0
