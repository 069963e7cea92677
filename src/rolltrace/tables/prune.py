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
from rolltrace.tables.columns import PARTITION_COLUMNS
from rolltrace.tables.relation import open_scan, read_inside
from rolltrace.tables.rewrite import (
    IS_CHOSEN,
    Chosen,
    RowChange,
    choose_trajectories,
    estimate_change,
    give_back,
    rewrite_rows,
)
from rolltrace.tables.schema import Place, arrow_schema
from rolltrace.tables.store import TableStore

if TYPE_CHECKING:
    import duckdb

PRUNED = "pruned"
"""The `event` of the note that says when and why the payloads of a trajectory went. It stays."""
WORKER = "prune"
"""The `worker` of the rows that say so."""
_NO_NOTE = f"event IS DISTINCT FROM '{PRUNED}'"


def _changes(*, whole: bool) -> dict[str, RowChange]:
    """What pruning does to each table."""
    if whole:
        no_call = f"{IS_CHOSEN} AND kind IS DISTINCT FROM 'llm' AND kind IS DISTINCT FROM 'tool'"
        ops, transitions = (
            RowChange(no_call, IS_CHOSEN, ("traceback", "payload_bytes", "payload")),
            RowChange(IS_CHOSEN),
        )
        notes = RowChange(f"{IS_CHOSEN} AND {_NO_NOTE}")
    else:
        ops = RowChange("false", IS_CHOSEN, ("traceback", "payload_bytes", "payload"))
        transitions = RowChange("false", IS_CHOSEN, ("trace", "fields"))
        notes = RowChange("false", f"{IS_CHOSEN} AND {_NO_NOTE}", ("body",))
    payload_only = RowChange(IS_CHOSEN)
    return {
        "notes": notes, "ops": ops, "tokens": payload_only, "messages": payload_only, "transitions": transitions,
    }  # fmt: skip


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
    """Remove the payloads of these trajectories, or with `whole` their transitions, notes and ops altogether.

    Model and tool calls keep their small columns even then.

    Args:
        store: The store.
        chosen: The trajectories.
        whole: Remove rows, not only payloads.
        reason: Why, in `losses`; `pruned_payload` or `pruned_whole` if not given.
        policy: The command or policy that chose them, for whoever looks for a payload later.
        at_once: Delete the old files now, not when `vacuum` comes by: somebody is waiting for the space.
        progress: Told how many tables are done, of how many.

    Raises:
        StoreError: others change the same files all the time.
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
            rewritten = rewrite_rows(
                store, connection, table, places, change,
                adds=adds if table == "notes" else dict, once=f"prune {table}",
            )  # fmt: skip
            rows, size = rows + rewritten.rows, size + rewritten.bytes
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

    def missing() -> dict[Place, pa.Table]:
        adds = {}
        for place in places:
            count = _noted(store, connection, place, reason) - _counted(store, connection, place, reason)
            if count > 0:
                row = {"worker": WORKER, "reason": reason, "count": count}
                adds[place] = _make_rows("losses", place, [row])
        return adds

    rewrite_rows(store, connection, "losses", (), RowChange(), adds=missing, once="prune losses")


def _noted(store: TableStore, connection: duckdb.DuckDBPyConnection, place: Place, reason: str) -> int:
    notes = read_inside(connection, store.address, "notes", store.files("notes", place))
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT trajectory_id, body FROM {notes} WHERE event = '{PRUNED}' "
        "AND json_extract_string(body, '$.reason') = ?)",
        [reason],
    ).fetchall()[0]
    return int(count)


def _counted(store: TableStore, connection: duckdb.DuckDBPyConnection, place: Place, reason: str) -> int:
    losses = read_inside(connection, store.address, "losses", store.files("losses", place))
    sql = f"SELECT coalesce(sum(count), 0) FROM {losses} WHERE reason = ? AND worker = '{WORKER}'"
    return int(connection.execute(sql, [reason]).fetchall()[0][0])


def _make_rows(table: str, place: Place, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows of one place, with null where nothing is given."""
    schema = arrow_schema(table)
    empty = dict.fromkeys(schema.names) | dict(zip(PARTITION_COLUMNS, place))
    return pa.Table.from_pylist([empty | row for row in rows], schema=schema)
