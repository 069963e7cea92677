"""Whole trajectories, read some at a time: everything that a store has of them, with as many questions as for one.

What is small of all that are asked for is in memory at once, so the caller says how many these are. What is large is
read on the way, as somebody asks for it (query/contents.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._arrow import pa
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.contents import PAYLOAD, Contents, OpKey, Pace, ReadColumns
from rolltrace.query.conversation import Transcripts
from rolltrace.query.plain import PlainTable
from rolltrace.query.result import IS_INT
from rolltrace.query.trajectory import Trajectory, build
from rolltrace.query.values import Row
from rolltrace.tables import COORDINATES, OPS, TABLE_SCHEMAS

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.snapshot import ScopeKey

_EVENTS = {"transitions": "_transitions", "scores": "scores", "notes": "notes", "flags": "flags"}
"""Tables -> the views that are read."""
_OWN = "trajectory_id, traceback, parent_trajectory_id, parent_op_id"
_WHERE = frozenset(column.name for column in COORDINATES)
_COLUMNS = {
    schema.name: ", ".join(column.name for column in schema.columns if column.name not in _WHERE)
    for schema in TABLE_SCHEMAS
}
"""Those of each table that do not say where its rows stand in the training run."""
_SKELETON = ", ".join(column.name for column in OPS.columns if column.name not in PAYLOAD)
_RENAMED = {"tokens": "ids AS tokens", "response_mask": "mask AS response_mask"}
"""Columns of the table `tokens` that have other names here."""
_THESE = "trajectory_id IN (SELECT unnest(?::VARCHAR[]))"


class Whole(NamedTuple):
    """A trajectory, and the rows of its ops that it was made from, without what is large."""

    trajectory: Trajectory
    spans: list[Row]


def summaries(store: Store, trajectory_ids: Sequence[str], scope: ScopeKey) -> list[Row]:
    """The rows of the listing of these trajectories, in their order; without those that are gone."""
    columns = ", ".join((*TRAJECTORY_COLUMNS, IS_INT))
    by_id: dict[str, Row] = {}
    for row in _rows(store, "_listing", columns, trajectory_ids, scope, "start_ns"):
        by_id.setdefault(row["trajectory_id"], row)
    return [by_id[each] for each in trajectory_ids if each in by_id]


def read_whole(
    store: Store,
    listed: Sequence[Row],
    scope: ScopeKey,
    *,
    paces: tuple[Pace, Pace] | None = None,
    on_fault: Callable[[str, Exception], None] | None = None,
) -> Iterator[Whole]:
    """The trajectories of these rows of the listing, in their order.

    Args:
        store: The store.
        listed: Their rows, as from `summaries` or `Store.trajectories`.
        scope: Where they are: their step, or the folders of their steps; None to look everywhere.
        paces: How many ops are read at once, of payloads and of tokens, if that is known from others.
        on_fault: Told of a trajectory that cannot be built, and why; it is left out then. If not given, that is raised.
    """
    ids = [row["trajectory_id"] for row in listed]

    def of_each(table: str, columns: str, order: str) -> dict[str, list[Row]]:
        by_id: dict[str, list[Row]] = {each: [] for each in ids}
        for row in _rows(store, table, columns, ids, scope, order):
            by_id[row.pop("trajectory_id")].append(row)
        return by_id

    own = of_each("_trajectories", _OWN, "end_ns DESC NULLS LAST")
    spans = of_each("ops", _SKELETON, "start_ns, op_id")
    events = [of_each(view, _COLUMNS[table], "time_ns, worker") for table, view in _EVENTS.items()]
    keys = [OpKey(each, span["op_id"], span["start_ns"] or 0) for each in ids for span in spans[each]]
    contents = Contents(keys, _reader(store, scope), lambda: _logprob_means(store, ids, scope), paces)
    transcripts = Transcripts(store, ids, scope)
    for row, each in zip(listed, ids):
        inside = (rows_by_id[each] for rows_by_id in events)
        try:
            built = build(
                row, own[each][0] if own[each] else None, spans[each], contents, *inside, transcripts=transcripts
            )
        except Exception as fault:
            if on_fault is None:
                raise
            on_fault(each, fault)
            continue
        built.__dict__["_store_path"] = store.path
        yield Whole(built, spans[each])


def _reader(store: Store, scope: ScopeKey) -> ReadColumns:
    def read(keys: Sequence[OpKey], columns: Sequence[str]) -> pa.Table | PlainTable:
        ids = list(dict.fromkeys(key.trajectory_id for key in keys))
        where, values = _THESE, list[Any]([ids])
        if len(ids) == 1 and all(
            key.start_ns for key in keys
        ):  # by plain comparisons: the statistics of the parts say where its ops of that time are
            starts = [key.start_ns for key in keys]
            where, values = "trajectory_id = ? AND start_ns BETWEEN ? AND ?", [*ids, min(starts), max(starts)]
        names = ", ".join(_RENAMED.get(name, name) for name in columns)
        table = "ops" if columns == PAYLOAD else "_tokens"
        sql = f"SELECT op_id, {names} FROM {table} WHERE {where} AND op_id IN (SELECT unnest(?::BIGINT[]))"
        ask = store._engine.plain_rows if columns == PAYLOAD else store._engine.query
        return ask(sql, [*values, [key.op_id for key in keys]], scope)

    return read


def _logprob_means(store: Store, ids: Sequence[str], scope: ScopeKey) -> dict[int, float | None]:
    sql = f"SELECT op_id, list_avg(logprobs) AS mean FROM _tokens WHERE {_THESE}"
    return {row["op_id"]: row["mean"] for row in store._ask(sql, [list(ids)], scope, plain=True)}


def _rows(store: Store, table: str, columns: str, ids: Sequence[str], scope: ScopeKey, order: str) -> list[Row]:
    if not ids:
        return []
    where, values = ("trajectory_id = ?", list(ids)) if len(ids) == 1 else (_THESE, [list(ids)])
    return store._ask(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}", values, scope, plain=True).rows()
