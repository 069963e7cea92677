"""CSV that is safe to print and to open in a spreadsheet.

Traced text is data: control characters are written as \\x1b, and text that a spreadsheet would run as a formula has a
quote before it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rolltrace.exchange.jsontext import json_text
from rolltrace.record.printable import plain_text

_FORMULA = ("=", "+", "-", "@")


def write_csv(out: TextIO, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write a line of names and the rows; returns how many rows there were."""
    writer, count = csv.writer(out, lineterminator="\n"), 0
    writer.writerow([_cell(name) for name in names])
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        count += 1
    return count


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list | int):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except ValueError:  # Python writes no integer of over 4300 digits
            value = json_text(value)
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA) and not _is_number(text):
        text = f"'{text}"
    return "\n".join(plain_text(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n"))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
