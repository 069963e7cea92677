"""Groups of trajectories, which lose their payloads whole or not at all: the one choice behind `prune` and `retain`.

A group is all rollouts of one sample in one step of one run, and what was recorded for them together. What was begun
inside a trajectory belongs to its group; a trajectory without a sample is a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._guard import logger
from rolltrace.tables import DataFile, Place, TableStore, open_scan, read_rows

if TYPE_CHECKING:
    import duckdb

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

    def is_going_on(self, unsent: Container[str]) -> bool:
        return any(row["status"] == "running" or row["trajectory_id"] in unsent for row in self.rows)


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
    """Choose among groups; those that are still going on are left alone.

    Args:
        groups: From `groups_of`.
        why_kept: Says of a group why it is kept; None if it is not.
        unsent: Trajectories that a backend is still to be given.
    """
    choice = Choice([], {})
    for group in groups:
        why = WAITING if group.is_going_on(unsent) else why_kept(group)
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
        root = row if row.get("is_group") else _root(row, by_id)
        sample = (str(root["sample_index"]),) if root["sample_index"] is not None else (None, root["trajectory_id"])
        key = (root["project"], root["experiment"], root.get("run"), root["step"], root["validate"], *sample)
        group = groups.setdefault(key, Group(sample, [], []))
        group.rows.append(row)
        if row is root and not row.get("is_group"):
            group.roots.append(row)
    return list(groups.values())


def _root(row: Row, by_id: Mapping[str, Row]) -> Row:
    """The trajectory that this one was begun in, as far out as they are known."""
    passed = {row["trajectory_id"]}
    while True:
        outer = by_id.get(row.get("parent_trajectory_id") or "")
        if outer is None or outer["trajectory_id"] in passed:
            return row
        row = outer
        passed.add(row["trajectory_id"])


def read_summaries(tables: TableStore, places: Iterable[Place] | None = None) -> list[Row]:
    """All trajectories of a store or of some steps, and what was recorded for their groups (`is_group`).

    A step of which a file is damaged is left out: who knows what that says about the others.
    """
    import duckdb

    wanted = None if places is None else set(places)
    files = {
        name: [file for file in tables.files(name) if wanted is None or file.place in wanted]
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
