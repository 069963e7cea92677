"""`rolltrace drain`: turn the journals of this host into the store, by hand."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace.cli.output import add_store, progress, store_of


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "drain",
        help="turn journals into the store",
        description="Drain what waits, and go on until no writer of this host is left. Runs by itself unless tracing "
        'was set up with drain="off"; while another drainer is running, this one does nothing.',
    )
    add_store(parser)
    parser.add_argument("--once", action="store_true", help="drain what waits now, and stop")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace import keeper

    store = store_of(options, to_write=True)
    return keeper.run_once(store, progress("draining")) if options.once else keeper.run(store)
