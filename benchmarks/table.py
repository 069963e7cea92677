"""Figures with their targets, as a table for people and as JSON for machines."""

import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Target:
    """The bound that a figure should keep."""

    bound: Literal["<=", ">="]
    limit: float

    def met_by(self, value: float) -> bool:
        return value <= self.limit if self.bound == "<=" else value >= self.limit


def at_most(limit: float) -> Target:
    return Target("<=", limit)


def at_least(limit: float) -> Target:
    return Target(">=", limit)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    section: str
    name: str
    value: float
    unit: str
    target: Target | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.target.met_by(self.value) else "MISSED"


def render(rows: Iterable[Row]) -> Iterator[str]:
    """Yields the lines of the table, a block for each section."""
    yield f"{'':<44}{'figure':>14}    target"
    for section, members in groupby(rows, key=lambda row: row.section):
        yield section
        for row in members:
            target = f"{row.target.bound} {row.target.limit:g} {row.unit}" if row.target else ""
            figure = f"{_number(row.value)} {row.unit:<4}"
            yield f"  {row.name:<42}{figure:>14}    {target:<14}{row.verdict}".rstrip()


def write_json(rows: Iterable[Row], path: Path) -> None:
    """Writes the rows with what a reader needs to compare two runs; names no host and no path."""
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
    }
    path.write_text(json.dumps(report, indent=2) + "\n")


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
