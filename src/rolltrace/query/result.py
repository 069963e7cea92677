"""What a query gives: columns for notebooks, plain dicts for programs, a readable table for people.

Traced text is data: control characters are shown, not obeyed, and HTML is escaped.
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from rolltrace.errors import MissingExtraError
from rolltrace.query.incomplete import COMPLETE, Incomplete
from rolltrace.query.runs import NO_OLDER_RUNS, OlderRuns
from rolltrace.record.printable import plain_text, text_width

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars

_SHOWN_ROWS = 20
_WIDEST_CELL = 40
IS_INT = "_is_int"
"""A hidden column: whether `sample_index` was given as an int."""


class Result(Sequence[dict[str, Any]]):
    """Rows and columns: a sequence of dicts, and a table. `sample_index` is an int again where it was given as one.

    A column has one type: in `.arrow()`, `.df()` and `.pl()` it is a number only if all rows gave numbers, and
    `tags` are JSON text.
    """

    older_runs: OlderRuns = NO_OLDER_RUNS
    """What was left out because a newer run reached the same step; `all_runs=True` shows it."""
    incomplete: Incomplete = COMPLETE
    """What the store has and this answer lacks, because it could not be read; false if nothing."""
    _explain: Callable[[], str] | None = None

    def __init__(self, table: pa.Table) -> None:
        self._count: Callable[[], int] = lambda: len(self)
        self._has_tags = False
        """`tags` are those of trajectories: an object in a row, JSON text in a table."""
        self._is_int: list[bool | None] | None = None
        if IS_INT in table.column_names and "sample_index" in table.column_names:
            self._is_int = table[IS_INT].to_pylist()
            table = table.drop_columns([IS_INT])
        self._text_table = table
        """With every `sample_index` as text."""

    @cached_property
    def _table(self) -> pa.Table:
        table = self._text_table
        if self._is_int is None:
            return table
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
        return list(self._text_table.column_names)

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._table

    def df(self) -> pandas.DataFrame:
        """As a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        _need("pandas", "df")
        return self._table.to_pandas()

    def pl(self) -> polars.DataFrame:
        """As a Polars DataFrame.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        _need("polars", "pl")
        import polars

        made = polars.from_arrow(self._table)
        assert isinstance(made, polars.DataFrame)
        return made

    def rows(self) -> list[dict[str, Any]]:
        """As plain dicts."""
        return self._rows_of(0, len(self))

    def _rows_of(self, first: int, count: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._text_table.slice(first, count).to_pylist()
        for row, is_int in zip(rows, (self._is_int or [])[first : first + count]):
            if is_int and row["sample_index"] is not None:
                row["sample_index"] = int(row["sample_index"])
        if self._has_tags:
            from rolltrace.query.trajectory import tags_of

            for row in rows:
                row["tags"] = tags_of(row["tags"])
        return rows

    def why_empty(self) -> str:
        """Of an empty answer: which store was asked, and what it has instead of a value that it does not have."""
        return self._explain() if self._explain is not None and not len(self) else ""

    def __len__(self) -> int:
        return int(self._text_table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return self.rows()[at]
        place = range(len(self))[at]
        return self._rows_of(place, 1)[0]

    def _shown(self) -> list[list[str]]:
        rows = self._rows_of(0, _SHOWN_ROWS)
        return [[_cell(row[name]) for name in self.columns] for row in rows]

    def __repr__(self) -> str:
        grid = [[_cell(name) for name in self.columns], *self._shown()]
        widths = [max(text_width(row[at]) for row in grid) for at in range(len(self.columns))]
        fitting, room = 0, shutil.get_terminal_size((120, 24)).columns
        while fitting < len(widths) and (fitting == 0 or sum(widths[: fitting + 1]) + 2 * fitting <= room):
            fitting += 1
        lines = ["  ".join(_padded(text, width) for text, width in zip(row[:fitting], widths)).rstrip() for row in grid]
        lines.insert(1, "  ".join("-" * width for width in widths[:fitting]))
        return "\n".join([*lines, self._summary(len(widths) - fitting)])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(_cell(name))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in self._shown()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(self._summary(0))}</p>"
        )

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
