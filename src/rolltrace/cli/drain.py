"""`rolltrace drain`: turn journals into the store, by hand."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import progress
from rolltrace.errors import NotFoundError


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "drain",
        help="turn journals into the store",
        description="Drain what is pending, and continue until no writer of this host is left. This happens "
        'automatically unless tracing was set up with drain="off". If another drainer is running, it does the work.',
        epilog="example: rolltrace drain --once; rolltrace drain --host node07-4f2a11c0 /shared/store",
    )
    add_store(parser)
    parser.add_argument("--once", action="store_true", help="drain what is pending now, and stop")
    parser.add_argument(
        "--host", metavar="NAME", help="drain the journals of a host that is gone, which are in STORE/journal/NAME"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace import keeper

    store = store_of(options, to_write=True)
    keeper.collect_rarely()
    if options.host is not None:
        return keeper.run_once(store, progress("draining"), frozenset({_find_folder(store, options.host)}))
    return keeper.run_once(store, progress("draining")) if options.once else keeper.run(store)


def _find_folder(store: Path, host: str) -> Path:
    """The journals of another host.

    Raises:
        NotFoundError: there are none.
    """
    folder = store / "journal" / host
    if Path(host).name != host or not folder.is_dir():
        hosts = sorted(each.name for each in (store / "journal").glob("*") if each.is_dir())
        raise NotFoundError(f"no host {host!r} has journals in {str(store)!r}; there are: {', '.join(hosts) or 'none'}")
    return folder
