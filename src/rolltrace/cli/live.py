"""`rolltrace live`: what runs right now."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._address import address_in
from rolltrace._amounts import counted, duration
from rolltrace.cli.options import add_json, add_store, store_of
from rolltrace.cli.output import SHORT_ID, Column, paint, plain, print_rows, print_table, working

if TYPE_CHECKING:
    from rolltrace.query import Pulse

_EVERY_SEC = 1.0
_STALE_SEC = 10.0
"""A drainer that has not looked for so long is at a standstill, or gone."""
_TO_TOP = "\x1b[H\x1b[J"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "live",
        help="what runs right now",
        description="Trajectories that are running now: since when, in which op, in which process. "
        "The oldest comes first. One is slow when its op, or the time since its last op, takes longer than 95 of 100 "
        "do, and hung when it takes ten times as long and more than five seconds.",
        epilog="example: rolltrace live --watch",
    )
    add_store(parser)
    parser.add_argument("--watch", action="store_true", help="refresh every second, until Ctrl-C")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.query import open_store, pulse_of

    store = open_store(store_of(options))
    while True:
        with working(f"reading {store.path}"):
            pulse = pulse_of(store)
        if options.watch and not options.json and sys.stdout.isatty():
            print(_TO_TOP, end="")
        if options.json:
            print_rows(pulse.rows)
        else:
            _print(pulse, store.path)
        if not options.watch:
            return 0
        sys.stdout.flush()
        time.sleep(_EVERY_SEC)


def _print(pulse: Pulse, store: Path) -> None:
    rows = pulse.rows
    if not rows:
        print(f"nothing is running in the store {plain(repr(address_in(store).url))}")
        return

    def texts(key: str) -> list[str]:
        return ["" if row[key] is None else plain(row[key]) for row in rows]

    print_table(
        [
            Column("id", [row["trajectory_id"][:SHORT_ID] for row in rows]),
            Column("age", [duration(row["age_s"]) for row in rows], right=True),
            Column("current op", texts("current_op"), stretch=True),
            Column("since", [duration(row["op_age_s"]) for row in rows], right=True),
            Column("idle", [duration(row["idle_s"]) for row in rows], right=True),
            Column("pace", ["hung?" if row["pace"] == "hung" else row["pace"] for row in rows]),
            Column("step", texts("step"), right=True),
            Column("sample", texts("sample_index"), stretch=True),
            Column("n", texts("rollout_n"), right=True),
            Column("turns", texts("turns"), right=True),
            Column("tools", texts("tool_calls"), right=True),
            Column("worker", texts("worker")),
            Column("name", texts("name"), stretch=True),
            Column("experiment", texts("experiment"), stretch=True),
        ]
    )
    age_s = pulse.snapshot_age_s
    stale = "" if age_s is None or age_s < _STALE_SEC else f", as of {duration(age_s)} ago"
    print(paint(f"{counted(len(rows), 'running trajectory')}{stale}", "dim"))
