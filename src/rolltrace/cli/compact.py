"""`rolltrace compact`: merge the small parts of a store."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolltrace.cli.output import add_store, store_of
from rolltrace.journal import drainer_lock, journal_folder


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compact",
        help="merge the small parts of a store",
        description="Merge the small parts of every step into few large ones, while others read. The drainer does this "
        "for finished steps by itself.",
    )
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.store import compact

    store = store_of(options)
    with drainer_lock(journal_folder(store)) as alone:
        if not alone:
            print(
                "rolltrace: a drainer is at work on this store; it compacts finished steps by itself", file=sys.stderr
            )
            return 1
        print(f"{compact(store)} parts fewer")
    return 0
