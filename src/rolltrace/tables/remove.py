"""Delete trajectories: all their rows, in every table, and the bytes of the files that had them.

`trajectories` is committed last: after a kill in between, what is left of a trajectory is still listed, and can be
deleted again. What remains of its step is reduced anew, since whether a trajectory is superseded depends on the others.
Images go with the last trajectory of their experiment: others may show the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rolltrace.tables.columns import TABLE_SCHEMAS, Place, TableSchema
from rolltrace.tables.compact import compact_place, moving_places
from rolltrace.tables.relation import open_scan, sql_literal
from rolltrace.tables.rewrite import (
    IS_CHOSEN,
    Chosen,
    RowChange,
    choose_trajectories,
    estimate_change,
    give_back,
    rewrite_rows,
)
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import FileKind

if TYPE_CHECKING:
    import duckdb


class Removed(NamedTuple):
    """What was deleted, or would be."""

    trajectories: int
    bytes: int
    """How much smaller the store is; about, if it would be."""


def estimate_removal(store: TableStore, chosen: Chosen, whole: Mapping[str, str] = MappingProxyType({})) -> Removed:
    """What `remove_trajectories` would delete. Changes nothing."""
    size = 0
    with open_scan() as connection:
        choose_trajectories(connection, chosen)
        for schema in TABLE_SCHEMAS:
            change, places = _make_change(schema, whole), _find_places(store, schema, chosen, whole)
            for file in store.files(schema.name):
                if file.place in places:
                    size += estimate_change(store, connection, schema.name, file, change).bytes
    return Removed(_count(chosen), size)


def remove_trajectories(
    store: TableStore,
    chosen: Chosen,
    whole: Mapping[str, str] = MappingProxyType({}),
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Removed:
    """Delete trajectories, and with what is `whole` (a project, experiment or run) what is in no trajectory, such as
    its losses. `progress` is told how many tables are done, of how many."""
    store.refresh()
    experiments = {place[:2] for place in chosen}
    before = [{file.place for file in store.files(schema.name)} for schema in TABLE_SCHEMAS]
    size = _count_bytes(store, experiments)
    for place in chosen.keys() & moving_places(store):  # scores by coordinates have the id of their trajectory then
        compact_place(store, place)
    with open_scan() as connection:
        choose_trajectories(connection, chosen)
        for done, schema in enumerate(TABLE_SCHEMAS):
            progress(done, len(TABLE_SCHEMAS))
            kind: FileKind | None = "batch" if schema.name == "trajectories" else None
            places = _find_places(store, schema, chosen, whole)
            rewrite_rows(store, connection, schema.name, places, _make_change(schema, whole), kind=kind)
        _remove_rest(store, connection, experiments)
    for place in chosen:
        compact_place(store, place)
    for schema, places in zip(TABLE_SCHEMAS, before):
        give_back(store, schema.name, {place for place in places if place[:2] in experiments})
    progress(len(TABLE_SCHEMAS), len(TABLE_SCHEMAS))
    return Removed(_count(chosen), size - _count_bytes(store, experiments))


def _count_bytes(store: TableStore, experiments: Collection[tuple[str, str]]) -> int:
    files = (file for schema in TABLE_SCHEMAS for file in store.files(schema.name))
    return sum(file.size_bytes for file in files if file.place[:2] in experiments)


def _remove_rest(
    store: TableStore, connection: duckdb.DuckDBPyConnection, experiments: Collection[tuple[str, str]]
) -> None:
    """Remove what is left of those experiments that have no trajectory any more."""
    gone = set(experiments).difference(file.place[:2] for file in store.files("trajectories"))
    for schema in TABLE_SCHEMAS if gone else ():
        rest = {file.place for file in store.files(schema.name) if file.place[:2] in gone}
        rewrite_rows(store, connection, schema.name, rest, RowChange("true"))


def _count(chosen: Chosen) -> int:
    return len(set().union(*chosen.values()))


def _make_change(schema: TableSchema, whole: Mapping[str, str]) -> RowChange:
    """Which rows of a table go."""
    names = {column.name for column in schema.columns}
    conditions = [IS_CHOSEN] if "trajectory_id" in names else []
    if whole and names.issuperset(whole):
        conditions.append(" AND ".join(f"{name} = {sql_literal(value)}" for name, value in whole.items()))
    return RowChange(" OR ".join(f"({condition})" for condition in conditions) or "false")


def _find_places(store: TableStore, schema: TableSchema, chosen: Chosen, whole: Mapping[str, str]) -> set[Place]:
    """Where rows of these trajectories may lie: in their steps; scores that were given by id alone in none."""
    places = {*chosen, *(place._replace(step=None) for place in chosen)}
    if whole:
        named = {name: value for name, value in whole.items() if name in Place._fields}
        places.update(
            file.place
            for file in store.files(schema.name)
            if all(getattr(file.place, name) == value for name, value in named.items())
        )
    return places
