"""`rolltrace compact`: merge the small parts of a store."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace._launch import remove_replaced_later
from rolltrace.cli.duty import upkeep_duty
from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import working
from rolltrace.errors import StoreError


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compact",
        help="merge the small parts of a store",
        description="Merge the small parts of every step into a few large ones; readers are not disturbed. The drainer "
        "does this automatically for finished steps. The old parts are removed half a minute later.",
    )
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.lake import choosing, kinds
    from rolltrace.store import GRACE_SEC, compact, remove_abandoned, remove_leftovers, remove_replaced

    store = store_of(options, to_write=True)
    with upkeep_duty(store, "a drainer is running; it merges the parts of this store automatically") as epoch:
        if epoch is None:
            return 1
        remove_replaced(store)
        remove_leftovers(store)
        remove_abandoned(store)
        with working(f"merging the parts of {store}"), choosing(store) as is_free:
            if not is_free:
                raise StoreError("the parts of this store are being shipped; try again later")
            fewer = compact(store, kind_of=kinds(store), epoch=epoch).fewer
        print(f"{fewer} fewer parts")
    remove_replaced_later(store, GRACE_SEC + 1)
    return 0
