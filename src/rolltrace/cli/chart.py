"""Line charts in the terminal: a title, an axis with numbers, the lines in dots of Braille, and a legend.

Own code, because a chart is 100 lines: docs/design/dependencies.md. Where the output cannot hold Braille, the dots are
`*`; where it has no colours, the letter at the end of each line tells which it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rolltrace._amounts import number
from rolltrace.cli.output import cut, paint, plain
from rolltrace.record import text_width

_COLOURS = ("cyan", "yellow", "green", "red", "bold", "dim")
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a Braille letter, by row and column."""
_BRAILLE = 0x2800
_LINES_BETWEEN_NUMBERS = 4


class Line(NamedTuple):
    """One line of a chart."""

    label: str
    points: Sequence[tuple[float, float]]
    """By x."""
    facts: str = ""
    """What the legend tells beside the label."""


class _Axis(NamedTuple):
    least: float
    most: float

    def place(self, value: float, dots: int) -> int:
        """Which of so many dots a value falls on."""
        share = 0.5 if self.most == self.least else (value - self.least) / (self.most - self.least)
        return round(share * (dots - 1))


def chart(
    title: str, lines: Sequence[Line], *, width: int, height: int, show: Callable[[float], str] = number
) -> Iterator[str]:
    """The text of a chart, at most `width` wide, with `height` lines for the drawing; `show` writes a value of y."""
    points = [point for line in lines for point in line.points]
    x_axis, y_axis = (_Axis(min(values), max(values)) for values in zip(*points))
    numbers = [""] * height
    for row in range(0, height, _LINES_BETWEEN_NUMBERS):
        share = 1 - row / (height - 1)
        numbers[row] = show(y_axis.least + share * (y_axis.most - y_axis.least))
    numbers[-1] = show(y_axis.least)
    if y_axis.most == y_axis.least:  # a straight line in the middle
        numbers = [show(y_axis.least) if row == height // 2 else "" for row in range(height)]
    margin = max(map(len, numbers))
    columns = max(10, width - margin - 4)
    canvas = _Canvas(columns, height)
    for at, line in enumerate(lines):
        canvas.draw(line, at, x_axis, y_axis)
    yield paint(cut(title, width), "bold")
    for row in range(height):
        letters = "".join(paint(letter, _colour(at)) for at, letter in canvas.ends.get(row, ()))
        yield f"{numbers[row]:>{margin}} {_bar()}{canvas.text(row)}{letters}".rstrip()
    first, last = (number(int(value)) for value in x_axis)
    gap = " " * max(1, columns - len(first) - len(last))
    yield " " * (margin + 2) + (first if first == last else f"{first}{gap}{last}")
    for at, line in enumerate(lines):
        label = cut(f"{_letter(at)}  {plain(line.label)}", width)
        yield f"{paint(label, _colour(at))}  {cut(line.facts, width - text_width(label) - 2)}".rstrip()


def _letter(at: int) -> str:
    return chr(ord("a") + at % 26)


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


class _Canvas:
    """Cells of two by four dots; a cell has the colour of the last line drawn through it."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._cells: dict[tuple[int, int], tuple[int, int]] = {}
        """(row, column) -> (bits, line)."""
        self.ends: dict[int, list[tuple[int, str]]] = {}
        """Row -> the lines that end there, with their letters."""

    def draw(self, line: Line, at: int, x_axis: _Axis, y_axis: _Axis) -> None:
        width, height = 2 * self._columns, 4 * self._rows
        dots = [(x_axis.place(x, width), height - 1 - y_axis.place(y, height)) for x, y in line.points]
        for (x, y), (next_x, next_y) in zip(dots, dots[1:] or dots):
            count = max(abs(next_x - x), abs(next_y - y), 1)
            for part in range(count + 1):
                self._set(x + round((next_x - x) * part / count), y + round((next_y - y) * part / count), at)
        self.ends.setdefault(dots[-1][1] // 4, []).append((at, _letter(at)))

    def _set(self, x: int, y: int, at: int) -> None:
        cell = (y // 4, x // 2)
        bits, _ = self._cells.get(cell, (0, at))
        self._cells[cell] = (bits | _DOTS[y % 4][x % 2], at)

    def text(self, row: int) -> str:
        letters = []
        for column in range(self._columns):
            bits, at = self._cells.get((row, column), (0, 0))
            letter = chr(_BRAILLE + bits) if _can_print("\u28ff") else "*"
            letters.append(paint(letter, _colour(at)) if bits else " ")
        return "".join(letters)


def _bar() -> str:
    return "│" if _can_print("│") else "|"


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
