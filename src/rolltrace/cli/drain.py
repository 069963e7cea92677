"""`rolltrace drain`: turn the journals of this host into the store, by hand."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import progress


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "drain",
        help="turn journals into the store",
        description="Drain what is pending, and continue until no writer of this host is left. This happens "
        'automatically unless tracing was set up with drain="off". If another drainer is running, it does the work.',
    )
    add_store(parser)
    parser.add_argument("--once", action="store_true", help="drain what is pending now, and stop")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace import keeper

    store = store_of(options, to_write=True)
    keeper.collect_rarely()
    return keeper.run_once(store, progress("draining")) if options.once else keeper.run(store)
