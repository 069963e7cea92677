"""Give space back: payloads, or all rows but the summary, of trajectories that somebody chose.

The summary (trajectories, scores, flags, group_records) always stays, each trajectory gets a note that says when and
why, and each step a row in `losses` that says how many were pruned. Each table is one commit, the notes first: after a
kill in between, whoever prunes next finds what is left, notes nobody twice, and counts in `losses` what the notes say.

Payloads are inputs, outputs, tokens, messages, tracebacks, notes. Small columns stay, and with `whole` only the rows of
model and tool calls.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._arrow import pa
from rolltrace.tables.columns import PARTITION_COLUMNS, Place, arrow_schema
from rolltrace.tables.relation import open_scan, read_inside, sql_literal
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

if TYPE_CHECKING:
    import duckdb

PRUNED = "pruned"
"""The `event` of the note that says when and why the payloads of a trajectory went. It stays."""
WORKER = "prune"
"""The `worker` of the rows that say so."""


def _changes(*, whole: bool) -> dict[str, RowChange]:
    """What pruning does to each table, the notes first."""
    goes, note = RowChange(IS_CHOSEN), f"{IS_CHOSEN} AND event IS DISTINCT FROM '{PRUNED}'"
    call_goes = f"{IS_CHOSEN} AND kind IS DISTINCT FROM 'llm' AND kind IS DISTINCT FROM 'tool'" if whole else "false"
    return {
        "notes": RowChange(note) if whole else RowChange("false", note, ("body",)),
        "ops": RowChange(call_goes, IS_CHOSEN, ("traceback", "payload_bytes", "payload")),
        "tokens": goes,
        "messages": goes,
        "transitions": goes if whole else RowChange("false", IS_CHOSEN, ("trace", "fields")),
    }


class Prunable(NamedTuple):
    """What could be removed."""

    places: dict[Place, set[str]]
    """The trajectories that have something to lose."""
    bytes: int
    """About how much smaller the store would be."""

    @property
    def ids(self) -> set[str]:
        return set().union(*self.places.values())


class Pruned(NamedTuple):
    """What was removed."""

    trajectories: int
    rows: int
    """Rows that lost their payload, or were removed."""
    bytes: int
    """How much smaller the store is."""


def find_prunable(store: TableStore, chosen: Chosen, *, whole: bool = False) -> Prunable:
    """Those of these trajectories that have something to remove. Changes nothing."""
    with open_scan() as connection:
        choose_trajectories(connection, chosen)
        return _find_prunable(store, connection, set(chosen), whole=whole)


def prune_payloads(
    store: TableStore,
    chosen: Chosen,
    *,
    whole: bool = False,
    reason: str | None = None,
    policy: str | None = None,
    at_once: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pruned:
    """Remove the payloads of these trajectories, or with `whole` their transitions, notes and ops altogether; model
    and tool calls keep their small columns even then.

    Args:
        store, chosen, whole: What.
        reason: Why, in `losses`; `pruned_payload` or `pruned_whole` if not given.
        policy: The command or policy that chose them, for whoever looks for a payload later.
        at_once: Delete the old files now, not when `vacuum` comes by: somebody is waiting for the space.
        progress: Told how many tables are done, of how many.
    """
    why = reason or ("pruned_whole" if whole else "pruned_payload")
    rows = size = 0
    with open_scan() as connection:
        choose_trajectories(connection, chosen)
        prunable = _find_prunable(store, connection, set(chosen), whole=whole)
        places = set(prunable.places)
        if not places:
            return Pruned(0, 0, 0)
        changes = _changes(whole=whole)
        for done, (table, change) in enumerate(changes.items()):
            progress(done, len(changes))
            adds = partial(_notes, store, connection, prunable.places, why, policy, whole=whole)
            less = rewrite_rows(
                store, connection, table, places, change,
                adds=adds if table == "notes" else dict, once=f"prune {table}",
            )  # fmt: skip
            rows, size = rows + less[0], size + less[1]
            if at_once:
                give_back(store, table, places)
        _count_losses(store, connection, places, why)
        progress(len(changes), len(changes))
    return Pruned(len(prunable.ids), rows, size)


def _find_prunable(
    store: TableStore, connection: duckdb.DuckDBPyConnection, places: set[Place], *, whole: bool
) -> Prunable:
    losing: dict[Place, set[str]] = {}
    size = 0
    for table, change in _changes(whole=whole).items():
        store.table(table).refresh()
        for file in store.files(table):
            if file.place not in places:
                continue
            estimate = estimate_change(store, connection, table, file, change)
            if estimate.hits:
                rows = read_inside(connection, store.address, table, [file])
                ids = connection.sql(f"SELECT DISTINCT trajectory_id FROM {rows} WHERE {change.hits}").fetchall()
                losing.setdefault(file.place, set()).update(trajectory_id for (trajectory_id,) in ids)
                size += estimate.bytes
    return Prunable(losing, size)


def _notes(
    store: TableStore,
    connection: duckdb.DuckDBPyConnection,
    places: Mapping[Place, set[str]],
    reason: str,
    policy: str | None,
    *,
    whole: bool,
) -> dict[Place, pa.Table]:
    """The notes to add: for those that have none of the same kind yet, from somebody who was killed."""
    body = json.dumps({"policy": policy, "whole": whole, "reason": reason})
    note = {"worker": WORKER, "event": PRUNED, "time_ns": time.time_ns(), "body": body}
    tables = {}
    for place, ids in places.items():
        notes = read_inside(connection, store.address, "notes", store.files("notes", place))
        known = connection.execute(
            f"SELECT DISTINCT trajectory_id FROM {notes} WHERE event = '{PRUNED}' AND "
            "json_extract_string(body, '$.reason') = ? AND json_extract_string(body, '$.whole') = ?",
            [reason, str(whole).lower()],
        ).fetchall()
        new = sorted(ids.difference(each for (each,) in known))
        if new:
            tables[place] = _make_rows("notes", place, [{**note, "trajectory_id": each} for each in new])
    return tables


def _count_losses(store: TableStore, connection: duckdb.DuckDBPyConnection, places: set[Place], reason: str) -> None:
    """Say in `losses` how many trajectories of each step were pruned: as many as have a note."""

    def count() -> dict[Place, pa.Table]:
        rows = {}
        for place in places:
            notes = read_inside(connection, store.address, "notes", store.files("notes", place))
            ((number,),) = connection.sql(
                f"SELECT count(*) FROM (SELECT DISTINCT trajectory_id, body FROM {notes} WHERE event = '{PRUNED}' "
                f"AND json_extract_string(body, '$.reason') = {sql_literal(reason)})"
            ).fetchall()
            rows[place] = _make_rows("losses", place, [{"worker": WORKER, "reason": reason, "count": number}])
        return rows

    before = RowChange(f"worker = '{WORKER}' AND reason = {sql_literal(reason)}")
    rewrite_rows(store, connection, "losses", places, before, adds=count, once="prune losses")


def _make_rows(table: str, place: Place, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows of one place, with null where nothing is given."""
    schema = arrow_schema(table)
    empty = dict.fromkeys(schema.names) | dict(zip(PARTITION_COLUMNS, place))
    return pa.Table.from_pylist([empty | row for row in rows], schema=schema)
