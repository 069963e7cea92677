"""`rolltrace ship`: bring the finished parts of a store into a lake."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, size
from rolltrace.cli.options import add_json, add_store, store_of
from rolltrace.cli.output import json_line, plain, progress
from rolltrace.errors import ConfigError, OutageError, StoreError

if TYPE_CHECKING:
    from rolltrace.lake import Shipper

_TRIES = 5


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "ship",
        help="bring the finished parts of a store into a lake on object storage",
        description="Add the finished parts of a store to the Delta tables of a lake: each one once, as the file it "
        "is. What is in a journal is drained first, if no drainer runs. Runs with backend='lake' do this by "
        "themselves; this is for all others, and to go on after an outage.",
        epilog="rolltrace ship --to s3://bucket/prefix; rolltrace ship runs/a --to /shared/lake",
    )
    add_store(parser)
    parser.add_argument(
        "--to", metavar="URL", help="the lake: s3://, gs://, az:// or a folder (default: ROLLTRACE_LAKE)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print how many parts would be shipped")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.keeper import run_once
    from rolltrace.lake import VARIABLE, LakeAddress, Shipper

    to = options.to or os.environ.get(VARIABLE)
    if not to:
        raise ConfigError(f"name the lake: rolltrace ship --to s3://bucket/prefix, or set {VARIABLE}")
    store, address = store_of(options, to_write=not options.dry_run), LakeAddress.of(to)
    if address.folder is not None and address.folder == store:
        raise ConfigError(f"{to!r} is the store itself; a lake is another folder")
    shipper = Shipper(store, address)
    if options.dry_run:
        count = shipper.pending()
        print(json_line({"pending": count}) if options.json else f"{counted(count, 'part')} to ship to {plain(to)}")
        return 0
    run_once(store)
    parts, total, stuck = _ship(shipper)
    if options.json:
        print(json_line({"parts": parts, "bytes": total, "stuck": stuck}))
    else:
        print(
            f"shipped {counted(parts, 'part')} ({size(total)}) to {plain(to)}" if parts else "nothing was left to ship"
        )
    if stuck:
        print(f"rolltrace: {counted(len(stuck), 'part')} cannot be shipped; see docs/howto/lake.md", file=sys.stderr)
    return 3 if stuck else 0


def _ship(shipper: Shipper) -> tuple[int, int, list[str]]:
    parts = total = failures = 0
    bar = progress("shipping")
    while True:
        with shipper.position.shipping() as alone:
            if alone:
                try:
                    done = shipper.round(bar)
                except OutageError as fault:
                    failures += 1
                    if failures == _TRIES:
                        raise OutageError(f"{fault}; the same command goes on from there") from fault
                    time.sleep(2**failures / 2)
                    continue
                parts, total, failures = parts + done.parts, total + done.bytes, 0
                if not done.parts and not done.left:
                    return parts, total, done.stuck
                continue
        if failures == _TRIES * 4:
            raise StoreError("another process ships this store to this lake; it will bring all of it")
        failures += 1
        time.sleep(0.5)
