"""The columns of `rolltrace ls`: the usual ones, those that were chosen, those that were asked about.

What a filter or an order is about is always among them, also on a narrow screen: else nobody sees why a row is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import ago, duration
from rolltrace.cli.output import SHORT_ID, Column, differing_places, field_text, paint_status, plain
from rolltrace.errors import QueryError

if TYPE_CHECKING:
    from rolltrace.query import Store

Row = dict[str, Any]
_KEYED = ("tag.", "score.", "term.", "label.", "author.", "group.")
"""Fields that have no column of their own in `trajectories`."""
_OF_OPS = {"tool": "name", "op": "name", "kind": "kind"}
"""Fields about some op of a trajectory -> the column of `spans` that tells."""
_ALONE = ("author", "passed")
"""Further fields that have no column of their own."""


def usual_columns(rows: Sequence[Row]) -> list[Column]:
    """What a person wants to see of trajectories, the most important first."""
    titles = ["id", "step", "sample", "n", "status", "reward"]
    titles += [name for name in ("advantage", "fate") if any(row[name] is not None for row in rows)]
    titles += ["turns", "tools", "tokens", "took", "started", "name"]
    if any(row["validate"] for row in rows):
        titles.insert(4, "val")
    titles[1:1] = differing_places(rows)
    titles += [name for name in ("flags", "labels", "error") if any(row[name] for row in rows)]
    return [_column(title, rows) for title in titles]


def chosen_columns(store: Store, rows: Sequence[Row], names: str, **rule: Any) -> list[Column]:
    """The columns of these names, in their order; `rule`: what `passed` means, as in `verdicts_of`."""
    return [_any_column(store, rows, name, rule)._replace(keep=True) for name in fields_of(names)]


def with_asked(
    store: Store, rows: Sequence[Row], columns: list[Column], asked: Sequence[str], **rule: Any
) -> list[Column]:
    """The columns, and among them those that a filter or an order asked about, which stay on any screen."""
    shown = {column.title: at for at, column in enumerate(columns)}
    for name in asked:
        title = _title(name)
        if title in shown:
            columns[shown[title]] = columns[shown[title]]._replace(keep=True)
        elif name != "text":  # of which there is too much
            shown[title] = len(columns)
            columns.append(_any_column(store, rows, name, rule)._replace(keep=True))
    return columns


def chosen_fields(store: Store, rows: Sequence[Row], names: str, **rule: Any) -> Iterator[Row]:
    """The rows with these fields only, for programs."""
    wanted = {name: _values(store, rows, name, rule) for name in fields_of(names)}
    for at in range(len(rows)):
        yield {name: values[at] for name, values in wanted.items()}


def fields_of(names: str) -> list[str]:
    """The fields that `--columns` names, by header or by the name of the column.

    Raises:
        QueryError: there is no such column.
    """
    from rolltrace.query import TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS, column_of

    words = [word.strip() for word in names.split(",") if word.strip()]
    if not words:
        raise QueryError("--columns needs names, such as id,step,reward")
    return [
        word
        if word.startswith(_KEYED) or word in (*_OF_OPS, *_ALONE)
        else column_of(word, TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS, "trajectories have no column")
        for word in words
    ]


def _any_column(store: Store, rows: Sequence[Row], name: str, rule: Mapping[str, Any]) -> Column:
    if name.startswith(_KEYED) or name in (*_OF_OPS, *_ALONE):
        values = _values(store, rows, name, rule)
        if name == "passed":
            return Column(name, ["" if value is None else "yes" if value else "no" for value in values])
        is_number = all(value is None or isinstance(value, int | float) for value in values)
        return Column(name, [field_text(value) for value in values], right=is_number, stretch=not is_number)
    return _column(_title(name), rows)


def _title(name: str) -> str:
    """The header of a field."""
    from rolltrace.query import FILTER_HEADERS

    return {field: header for header, field in FILTER_HEADERS.items()}.get(name, name)


def _column(title: str, rows: Sequence[Row]) -> Column:
    """The column with this header."""
    from rolltrace.query import TRAJECTORY_HEADERS

    key = TRAJECTORY_HEADERS.get(title, title)
    cells = [_CELLS[key](row) if key in _CELLS else field_text(row[key]) for row in rows]
    if key == "status":
        return Column(title, cells, colour=paint_status)
    is_number = all(row[key] is None or type(row[key]) in (int, float) for row in rows) and key != "sample_index"
    return Column(title, cells, right=is_number, stretch=not is_number and key != "trajectory_id")


def _tools(row: Row) -> str:
    return f"{row['tool_calls']} ({row['tool_errors']} bad)" if row["tool_errors"] else str(row["tool_calls"])


_CELLS: Mapping[str, Callable[[Row], str]] = {
    "trajectory_id": lambda row: row["trajectory_id"][:SHORT_ID],
    "validate": lambda row: "yes" if row["validate"] else "",
    "tool_calls": _tools,
    "duration_s": lambda row: duration(row["duration_s"]),
    "start_ns": lambda row: ago(row["start_ns"]),
    "end_ns": lambda row: ago(row["end_ns"]),
    "flags": lambda row: plain(", ".join(row["flags"] or ())),
    "labels": lambda row: plain(", ".join(row["labels"] or ())),
}
"""How people read a column; the others are numbers or text."""


def _values(store: Store, rows: Sequence[Row], name: str, rule: Mapping[str, Any]) -> list[Any]:
    """One value for each row."""
    kind, _, key = name.partition(".")
    if kind == "tag":
        return [row["tags"].get(key) for row in rows]
    if kind == "passed":
        from rolltrace.query import verdicts_of

        verdicts = verdicts_of(store, [row["trajectory_id"] for row in rows], **rule)
        return [verdicts.get(row["trajectory_id"]) for row in rows]
    if kind not in ("score", "term", "label", "author", "group", *_OF_OPS):
        return [row[name] for row in rows]
    from rolltrace.query import GROUP_COLUMNS, GROUP_HEADERS, SAME_GROUP, TERM

    parameters: list[Any] = []
    if kind == "group":
        key = GROUP_HEADERS.get(key, key)
        if key not in GROUP_COLUMNS:
            raise QueryError(f"groups have no column {key!r}; there are: {', '.join(GROUP_COLUMNS)}")
        question = f'SELECT t.trajectory_id, g."{key}" AS found FROM trajectories t JOIN groups g ON {SAME_GROUP} WHERE'
    elif kind in _OF_OPS:
        which = "s.kind = 'tool' AND " if kind == "tool" else ""
        question = f"SELECT s.trajectory_id, string_agg(DISTINCT s.{_OF_OPS[kind]}, ', ' ORDER BY s.{_OF_OPS[kind]})"
        question += f" AS found FROM ops s WHERE {which}"
    elif kind == "term":
        question = f"SELECT trajectory_id, {TERM} AS found FROM trajectories t WHERE"
        parameters = [key]
    else:
        column = "value" if kind == "score" else f"string_agg(DISTINCT {kind}, ', ' ORDER BY {kind})"
        which = f"{'name = ? AND ' * bool(key)}{'value' if kind == 'score' else 'label'} IS NOT NULL AND"
        question = f"SELECT trajectory_id, {column} AS found FROM latest_scores WHERE {which}"
        parameters = [key] if key else []
    ids = [row["trajectory_id"] for row in rows]
    question += f" trajectory_id IN ({', '.join('?' * len(ids))})"
    if kind in (*_OF_OPS, "label", "author"):
        question += " GROUP BY trajectory_id"
    found = store._ask(question, parameters + ids, store.scope_of(rows)) if ids else ()
    values = {row["trajectory_id"]: row["found"] for row in found}
    return [values.get(each) for each in ids]
