"""What every command shares: how to print, and how to show progress.

Traced text is never printed raw: it goes through `plain` (or `json_line`), in which nothing can move the cursor or
change a colour.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from rolltrace._amounts import duration, number
from rolltrace.record import plain_text, text_width, to_json

SHORT_ID = 8
"""How many letters of an id are shown."""
_PIPED_WIDTH = 200
_NARROWEST = 12
_UNTOLD_SEC = 2.0
"""Work that takes longer says what it does."""
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS_COLOURS = {"error": "red", "interrupted": "red", "cancelled": "yellow", "running": "cyan"}
_BAR_CELLS = 30


def json_line(fields: dict[str, Any]) -> str:
    """The fields as one line. Readable text stays so; what a terminal could not print, or would obey, is escaped."""
    try:
        text = json.dumps(fields, ensure_ascii=False, default=_as_json, allow_nan=False)
    except ValueError:
        fields = _with_plain_numbers(fields)
        text = json.dumps(fields, ensure_ascii=False, default=_as_json)
    return text if text.isprintable() else json.dumps(fields, default=_as_json)


def _as_json(value: Any) -> Any:
    """What JSON has no form for as text; but a number, such as SQL's 1.5, stays one."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _with_plain_numbers(value: Any) -> Any:
    """Numbers that JSON, or Python's writer of it, cannot hold as the store writes them: NaN, infinity, huge ones."""
    if isinstance(value, int | float):
        return to_json(value)
    if isinstance(value, dict):
        return {key: _with_plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_numbers(item) for item in value]
    return value


def warn(text: str) -> None:
    """Say something on stderr that is not the answer."""
    print(f"rolltrace: {text}", file=sys.stderr)


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(json_line(row))


def plain(value: Any) -> str:
    """A value as text that is safe to print, on one line. Lists and dicts are written as JSON."""
    try:
        if isinstance(value, dict | list | tuple | bool) or value is None:
            value = json.dumps(value, ensure_ascii=False, default=str)
        text = str(value)
    except ValueError:  # an integer that has no decimals in Python
        text = json.dumps(to_json(value), ensure_ascii=False)
    return plain_text(text.replace("\t", "    "))


def plain_lines(text: str) -> list[str]:
    """As `plain`, with its line ends kept: one text per line."""
    return [plain(line) for line in text.replace("\r\n", "\n").split("\n")]


def paint(text: str, colour: str | None) -> str:
    """The text in a colour, if stdout is a terminal and nobody asked for none (NO_COLOR, TERM=dumb)."""
    if colour is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def paint_status(status: str) -> str | None:
    """The colour of a trajectory or op that ended so."""
    return _STATUS_COLOURS.get(status.strip())


def cut(text: str, width: int) -> str:
    """The text in at most so many terminal columns."""
    if len(text) <= width // 2 or text_width(text) <= width:
        return text
    text = text[:width]
    while text and text_width(text) >= width:
        text = text[:-1]
    return text + "…"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many terminal columns; at least one line."""
    lines, line, line_width = list[str](), "", 0
    for letter in text:
        needed = text_width(letter)
        if line_width + needed > width:
            lines.append(line)
            line, line_width = "", 0
        line, line_width = line + letter, line_width + needed
    return [*lines, line]


def screen_width() -> int:
    """How many columns a line may take."""
    return shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns


class Column(NamedTuple):
    """One column of `print_table`."""

    title: str
    cells: Sequence[str]
    right: bool = False
    """Numbers stand on the right."""
    colour: Callable[[str], str | None] = lambda cell: None
    stretch: bool = False
    """May be cut to fit the screen."""
    keep: bool = False
    """Is shown however narrow the screen is: somebody asked about it."""


def field(
    rows: Sequence[Mapping[str, Any]], key: str, title: str | None = None, cell: Callable[[Any], str] | None = None
) -> Column:
    """The column of a field: numbers on the right, text as wide as there is room; `cell` writes a value otherwise."""
    values = [row[key] for row in rows]
    is_number = key != "sample_index" and all(value is None or type(value) in (int, float) for value in values)
    cells = [(cell or field_text)(value) for value in values]
    right = is_number or cell is not None
    return Column(key if title is None else title, cells, right=right, stretch=not right)


def mark_validation(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The column that tells validation from training, where there is any."""
    marks = ["yes" if row["validate"] else "" for row in rows]
    return [Column("val", marks)] if any(marks) else []


def field_text(value: Any) -> str:
    """A value as a cell of a table."""
    return "" if value is None else number(value) if isinstance(value, float) else plain(value)


def print_table(columns: Sequence[Column]) -> int:
    """Print the columns, made `plain` and fitted to the screen; returns how many were left out, the last ones first."""
    room = screen_width()
    columns = [column._replace(cells=[plain(cell) for cell in column.cells]) for column in columns]
    widths = [max(text_width(text) for text in (column.title, *column.cells)) for column in columns]
    for at in sorted(range(len(columns)), key=lambda at: -widths[at]):
        over = sum(widths) + 2 * (len(widths) - 1) - room
        if over > 0 and columns[at].stretch:
            widths[at] = min(widths[at], max(_NARROWEST, text_width(columns[at].title), widths[at] - over))
    shown = list(range(len(columns)))
    while sum(widths[at] for at in shown) + 2 * (len(shown) - 1) > room:
        optional = [at for at in shown[1:] if not columns[at].keep]
        if not optional:
            break
        shown.remove(optional[-1])
    for row in range(-1, max((len(column.cells) for column in columns), default=0)):
        texts = []
        for column, width in ((columns[at], widths[at]) for at in shown):
            text = cut(column.title if row < 0 else column.cells[row], width)
            gap = " " * (width - text_width(text))
            text = gap + text if column.right else text + gap
            texts.append(paint(text, "dim" if row < 0 else column.colour(text)))
        print("  ".join(texts).rstrip())
    return len(columns) - len(shown)


def print_footer(*facts: str) -> None:
    """Print what is to be said below a table, a line break between two facts where the screen ends."""
    line = ""
    for fact in filter(None, facts):
        longer = f"{line}; {fact}" if line else fact
        if line and text_width(longer) > screen_width():
            print(paint(f"{line};", "dim"))
            longer = fact
        line = longer
    print(paint(line, "dim"))


def differing_places(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Which of project, experiment and run the rows have several of; two experiments always have two runs."""
    places = ("project", "experiment", "run")
    counts = [len({tuple(row[name] for name in places[:depth]) for row in rows}) for depth in range(4)]
    return [name for name, fewer, more in zip(places, counts, counts[1:]) if more > fewer]


def error_text(error: Exception) -> str:
    """What to print of an error: with the place marked on a terminal, on one line everywhere else."""
    lines = plain_lines(str(error))
    if sys.stderr.isatty():
        return "\n".join(lines)
    return " | ".join(line.strip() for line in lines if line.strip(" ^"))


@contextmanager
def working(what: str) -> Iterator[None]:
    """While the block runs, from the second second on: one line on stderr that says what is done, if it is a terminal.

    It is gone when the block ends. For work whose length is known there is `progress`.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended, begun, room = threading.Event(), time.monotonic(), screen_width() - 1

    def tell() -> None:
        wait = _UNTOLD_SEC
        while not ended.wait(wait):
            line = cut(plain(f"{what}, {duration(time.monotonic() - begun)} so far (Ctrl-C stops)"), room)
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
            wait = 1.0

    teller = threading.Thread(target=tell, name="rolltrace-working", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if time.monotonic() - begun > _UNTOLD_SEC:
            print(f"\r{' ' * room}\r", end="", file=sys.stderr, flush=True)


def progress(what: str) -> Callable[[int, int], None]:
    """A function of (done, total) that draws a bar on stderr, if that is a terminal and it takes long enough."""
    begun, is_shown = time.monotonic(), False

    def show(done: int, total: int) -> None:
        nonlocal is_shown
        is_over = done >= total
        if not sys.stderr.isatty() or not total or (not is_shown and (is_over or time.monotonic() - begun < 0.5)):
            return
        is_shown = True
        filled = round(_BAR_CELLS * done / total)
        bar = f"{'#' * filled}{'.' * (_BAR_CELLS - filled)}"
        print(f"\r{what} [{bar}] {done}/{total}", end="\n" if is_over else "", file=sys.stderr, flush=True)

    return show
