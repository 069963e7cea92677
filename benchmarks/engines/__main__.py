"""Print which engines give the same twenty answers as rolltrace, on a store and on a lake, and in which time.

    python -m benchmarks.engines STORE [--only ENGINE ...]

STORE is one of the demo (`rolltrace demo --no-view`). The lake is a folder, to which it is shipped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.engines.answers import ENGINES, ON_LAKE, Ask, Rows, answers, dialect_of, rolltrace, same_rows
from benchmarks.engines.questions import QUESTIONS
from rolltrace.store import list_parts


class Column(NamedTuple):
    """What one engine answered."""

    title: str
    answers: list[Rows]
    seconds: float
    """From the start of the engine to the last answer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, metavar="STORE")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.store.parent) as folder, TemporaryDirectory() as lake:
        store = Path(folder).absolute()
        link_parts(options.store, store)
        ship = [sys.executable, "-m", "rolltrace", "ship", str(store), "--to", lake]
        subprocess.run(ship, check=True, stdout=subprocess.DEVNULL)
        ours = asked("rolltrace", "duckdb", rolltrace, store)
        columns = [asked(name, dialect_of(name), ENGINES[name], store) for name in options.only]
        columns += [
            asked(f"{name}, lake", dialect_of(name), ON_LAKE[name], Path(lake))
            for name in options.only
            if name in ON_LAKE
        ]
    print(table(ours, columns))


def link_parts(store: Path, folder: Path) -> None:
    """The store as it is now: the keeper of a fresh one still merges parts, and engines would see both or neither."""
    (folder / "format.json").write_bytes((store / "format.json").read_bytes())
    for part in list_parts(store):
        link = folder / part.relative_to(store)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.hardlink_to(part)


def asked(title: str, dialect: str, engine: Callable[[Path], AbstractContextManager[Ask]], store: Path) -> Column:
    started = time.perf_counter()
    with engine(store) as ask:
        rows = answers(ask, dialect)
        return Column(title, rows, time.perf_counter() - started)


def table(ours: Column, columns: list[Column]) -> str:
    """The table of docs/howto/engines.md."""
    lines = [
        f"| question | rows | {' | '.join(column.title for column in columns)} |",
        "|---|---:|" + "---|" * len(columns),
    ]
    for at, question in enumerate(QUESTIONS):
        verdicts = (same_rows(ours.answers[at], column.answers[at]) for column in columns)
        cells = " | ".join("equal" if verdict else "DIFFERENT" for verdict in verdicts)
        lines.append(f"| {at + 1}. {question.title} | {len(ours.answers[at])} | {cells} |")
    seconds = " | ".join(f"{column.seconds:.1f} s" for column in columns)
    lines.append(f"| all of them, with the start of the engine (rolltrace: {ours.seconds:.1f} s) | | {seconds} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
