"""What a query gives: columns for notebooks, plain dicts for programs, a readable table for people.

Traced text is data: control characters are shown, not obeyed, and HTML is escaped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from rolltrace._arrow import pa
from rolltrace.errors import MissingExtraError
from rolltrace.query.damage import COMPLETE, Incomplete
from rolltrace.query.database import PlainTable
from rolltrace.query.scope import NO_OLDER_RUNS, OlderRuns
from rolltrace.query.values import tags_of
from rolltrace.record import plain_text, text_width

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars

_SHOWN_ROWS = 20
_WIDEST_CELL = 40
_ID, _ID_DIGITS = "trajectory_id", 12
_RANKED = (
    _ID, "step", "sample_index", "rollout_n", "status", "reward", "reward_mean", "mean", "std", "value", "size",
    "trajectories", "experiment", "turns", "tool_calls", "response_tokens", "duration_s", "name", "flags", "error",
)  # fmt: skip
"""Columns that are shown before others where there is no room for all."""
IS_INT = "_is_int"
"""A hidden column: whether `sample_index` was given as an int."""


class Result(Sequence[dict[str, Any]]):
    """Rows and columns: a sequence of dicts, and a table. `sample_index` is an int again where it was given as one.

    A column of a table has one type: in `.arrow()`, `.df()` and `.pl()`, `sample_index` is a number only if it is one
    in all rows. `tags` of trajectories are dicts in rows and in `.df()`, and JSON text in `.arrow()` and `.pl()`.
    """

    older_runs: OlderRuns = NO_OLDER_RUNS
    """What was left out because a newer run reached the same step; `all_runs=True` shows it."""
    incomplete: Incomplete = COMPLETE
    """What the store has and this answer lacks, because it could not be read; false if nothing."""
    _explain: Callable[[], str] | None = None
    _store_path: Path | None = None
    """Of the store that was asked, which `rolltrace.view` asks for the rest."""

    def __init__(self, table: pa.Table | PlainTable) -> None:
        self._count: Callable[[], int] = lambda: len(self)
        self._has_tags = False
        """`tags` are those of trajectories: an object in a row, JSON text in a table."""
        self._answer = table if isinstance(table, PlainTable) else _with_integers(table)
        self._is_int: list[bool | None] | None = None
        if IS_INT in table.column_names and "sample_index" in table.column_names:
            column = table.column(IS_INT)
            self._is_int = column if isinstance(column, list) else column.to_pylist()

    @cached_property
    def _table(self) -> pa.Table:
        table = self._answer.arrow() if isinstance(self._answer, PlainTable) else self._answer
        if self._is_int is None:
            return table
        table = table.drop_columns([IS_INT])
        column, at = table["sample_index"], table.column_names.index("sample_index")
        flags = [flag for flag, valid in zip(self._is_int, column.is_valid().to_pylist()) if valid]
        return table.set_column(at, "sample_index", column.cast(pa.int64())) if flags and all(flags) else table

    @property
    def total(self) -> int:
        """How many rows there are without `limit`, `offset` and `last`; counted when it is asked for."""
        return self._count()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name in self._answer.column_names if self._is_int is None or name != IS_INT]

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._table

    def df(self) -> pandas.DataFrame:
        """As a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        _need("pandas", "df")
        frame = self._table.to_pandas()
        if self._has_tags:
            frame["tags"] = [tags_of(text) for text in self._table["tags"].to_pylist()]
        return frame

    def pl(self) -> polars.DataFrame:
        """As a Polars DataFrame.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        _need("polars", "pl")
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """As plain dicts."""
        return self._rows_of(0, len(self))

    def _rows_of(self, first: int, count: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]]
        if isinstance(self._answer, PlainTable):
            rows = self._answer.to_pylist(first, count)
        else:
            rows = self._answer.slice(first, count).to_pylist()
            for name in (field.name for field in self._answer.schema if _is_whole(field.type)):
                for row in rows:
                    row[name] = None if row[name] is None else int(row[name])
        for row, is_int in zip(rows, (self._is_int or [])[first : first + count]):
            del row[IS_INT]
            if is_int and row["sample_index"] is not None:
                row["sample_index"] = int(row["sample_index"])
        if self._has_tags:
            for row in rows:
                row["tags"] = tags_of(row["tags"])
        return rows

    def why_empty(self) -> str:
        """Of an empty answer: which store was asked, and what it has instead of a value that it does not have."""
        return self._explain() if self._explain is not None and not len(self) else ""

    def __len__(self) -> int:
        return int(self._answer.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            first, end, stride = at.indices(len(self))
            return self._rows_of(first, max(0, end - first)) if stride == 1 else self.rows()[at]
        return self._rows_of(range(len(self))[at], 1)[0]

    def _shown(self) -> list[list[str]]:
        rows = self._rows_of(0, _SHOWN_ROWS)
        return [[_cell(row[name]) for name in self.columns] for row in rows]

    def __repr__(self) -> str:
        columns = list(zip(map(_cell, self.columns), *self._shown()))
        widths = [max(map(text_width, column)) for column in columns]
        room = shutil.get_terminal_size((120, 24)).columns
        if sum(widths) + 2 * (len(widths) - 1) > room and _ID in self.columns:
            at = self.columns.index(_ID)  # the first digits of an id are enough to name it
            columns[at] = (_ID, *(text[:_ID_DIGITS] for text in columns[at][1:]))
            widths[at] = max(map(text_width, columns[at]))
        chosen = self._fitting(widths, room)
        lines = [
            "  ".join(_padded(columns[at][row], widths[at]) for at in chosen).rstrip()
            for row in range(len(columns[0]) if columns else 1)
        ]
        lines.insert(1, "  ".join("-" * widths[at] for at in chosen))
        return "\n".join([*lines, self._summary(len(columns) - len(chosen))])

    def _fitting(self, widths: list[int], room: int) -> list[int]:
        """Which columns are shown: as many as fit, those that people look for first, in their own order."""
        names = self.columns
        by_rank = sorted(
            range(len(names)), key=lambda at: (_RANKED.index(names[at]) if names[at] in _RANKED else len(_RANKED), at)
        )
        chosen: list[int] = []
        for at in by_rank:
            used = sum(widths[each] + 2 for each in chosen)
            if chosen and used + widths[at] > room:
                if names[at] in _RANKED:
                    continue
                break
            chosen.append(at)
        return sorted(chosen)

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import table_html, text_html

        names = [_cell(name) for name in self.columns]
        return f"{table_html(names, self._shown())}<p>{text_html(self._summary(0), most=4_000)}</p>"

    def _summary(self, hidden_columns: int) -> str:
        text = f"{len(self)} row{'' if len(self) == 1 else 's'}"
        if not len(self) and self._explain is not None:
            text += f": {self.why_empty()}"
        if len(self) > _SHOWN_ROWS:
            text += f", the first {_SHOWN_ROWS} shown"
        if self.older_runs.trajectories:
            text += f"; {self.older_runs}: all_runs=True"
        if self.incomplete:
            text += f"; {self.incomplete}"
        if hidden_columns:
            text += f"; {hidden_columns} more column{'' if hidden_columns == 1 else 's'}"
        return text


def _with_integers(table: pa.Table) -> pa.Table:
    """The table with sums of integers as integers: DuckDB's HUGEINT is a decimal in Arrow. What is too large for 64
    bits stays one."""
    for at, field in enumerate(table.schema):
        if _is_whole(field.type):
            try:
                table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
    return table


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.scale == 0


def _need(package: str, method: str) -> None:
    if find_spec(package) is None:
        raise MissingExtraError(
            f".{method}() needs {package}: pip install {package}; without it: .rows() gives dicts, .arrow() a table"
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list):
        text = ", ".join(map(str, value[:_WIDEST_CELL]))
    else:
        text = str(value)
    text = plain_text(text[: 2 * _WIDEST_CELL])
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))
