"""Print which engines give the same twenty answers as rolltrace from the plain tables, and in which time.

    python -m benchmarks.engines STORE [--only ENGINE ...]

STORE is one of the demo (`rolltrace demo --no-view`), settled (`rolltrace store compact`).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.engines.answers import ENGINES, Rows, answer_ours, answers, same_rows
from benchmarks.engines.questions import QUESTIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, metavar="STORE")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE")
    options = parser.parse_args()
    store, theirs, seconds = options.store.absolute(), {}, {}
    started = time.perf_counter()
    ours = answer_ours(store)
    our_seconds = time.perf_counter() - started
    for name in options.only:
        started = time.perf_counter()
        with ENGINES[name](store) as ask:
            theirs[name] = answers(ask, name)
        seconds[name] = time.perf_counter() - started
    sys.stdout.write(table(ours, theirs))
    cells = " | ".join(f"{took:.1f} s" for took in seconds.values())
    sys.stdout.write(f"| all of them, with the start of the engine (rolltrace: {our_seconds:.1f} s) | | {cells} |\n")


def table(ours: list[Rows], theirs: dict[str, list[Rows]]) -> str:
    """The table of docs/howto/engines.md."""
    lines = [f"| question | rows | {' | '.join(theirs)} |", "|---|---:|" + "---|" * len(theirs)]
    for at, question in enumerate(QUESTIONS):
        cells = " | ".join("equal" if same_rows(ours[at], answers[at]) else "DIFFERENT" for answers in theirs.values())
        lines.append(f"| {at + 1}. {question.title} | {len(ours[at])} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
