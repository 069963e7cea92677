"""Records in which one thing is wrong, made from a good one: each value in turn is replaced by others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from rolltrace.exchange import IMPORTS, ImportTarget
from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.importer import Source
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import as_bytes
from tests.nightly import nightly

SAMPLES = Path(__file__).parent / "samples"
WRONG: tuple[Any, ...] = (None, True, -1, 1 << 70, 0.5, float("nan"), "x", "\ud800", [], [None], [[1]], {}, {"x": [1]})


EACH = nightly(1, 3)
"""Every how many-th mutation is tried: by day, each place gets a third of the replacements, the next one others."""


def mutated(value: Any) -> Iterator[Any]:
    """The value with one thing in it replaced, for all things in it and all replacements."""
    yield from WRONG
    if isinstance(value, dict):
        for key, item in value.items():
            yield {other: each for other, each in value.items() if other != key}
            for changed in mutated(item):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for at, item in enumerate(value[:4]):
            for changed in mutated(item):
                yield [*value[:at], changed, *value[at + 1 :]]


def outcomes(name: str, path: Path, tmp_path: Path) -> tuple[int, int]:
    """How many mutations of the records of a file could be read, and how many were refused by name."""
    source = Source(path, ImportTarget(tmp_path / "store", "p", "e"))
    read = IMPORTS[name].reader(source)
    lines = [line for line in source.lines() if line.problem is None]
    assert lines
    good = refused = 0
    for line in lines[:2]:
        for changed in islice(mutated(line.value), 0, None, EACH):
            if not isinstance(changed, dict):
                continue
            try:
                rows = read(changed, Line(line.number, as_bytes(changed), changed))
            except Malformed:
                refused += 1
            else:
                good += 1
                assert rows[0].table.name == "trajectories"
    return good, refused
