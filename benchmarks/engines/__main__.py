"""Print which engines give the same twenty answers as rolltrace.

    python -m benchmarks.engines STORE [--only ENGINE ...]

STORE is one of the demo (`rolltrace demo --no-view`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.engines.answers import ENGINES, answers, dialect_of, rolltrace, same_rows
from benchmarks.engines.questions import QUESTIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, metavar="STORE")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE")
    options = parser.parse_args()
    print(table(options.store, options.only))


def table(store: Path, engines: list[str]) -> str:
    """The table of docs/howto/engines.md."""
    with rolltrace(store) as ask:
        ours = answers(ask, "duckdb")
    verdicts = {}
    for engine in engines:
        with ENGINES[engine](store) as ask:
            theirs = answers(ask, dialect_of(engine))
        verdicts[engine] = [same_rows(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    lines = [f"| question | rows | {' | '.join(engines)} |", "|---|---:|" + "---|" * len(engines)]
    for at, question in enumerate(QUESTIONS):
        cells = " | ".join("equal" if verdicts[engine][at] else "DIFFERENT" for engine in engines)
        lines.append(f"| {at + 1}. {question.title} | {len(ours[at])} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
