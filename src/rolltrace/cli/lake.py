"""`rolltrace lake`: keep a lake in shape."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rolltrace._amounts import age_sec, counted
from rolltrace.cli.options import add_json
from rolltrace.cli.output import json_line, plain, progress, working
from rolltrace.errors import ConfigError

_SHORTEST_SEC = 3600.0


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "lake",
        help="merge the parts of a lake, remove its old files",
        description="Keep a lake in shape. Both can run anywhere, at any time, beside hosts that ship to it and people "
        "who read it; a cron job once an hour and once a day is usual.",
        epilog="rolltrace lake compact s3://bucket/prefix; rolltrace lake vacuum s3://bucket/prefix --older-than 7d",
    )
    what = parser.add_subparsers(metavar="WHAT", required=True)
    compact = what.add_parser(
        "compact",
        help="merge the parts of finished steps, and make their summaries",
        description="Merge the small parts of finished steps into a few large ones, remove what was dropped or pruned "
        "on the hosts, and make the summaries by which readers list steps without fetching their parts.",
    )
    _add_lake(compact)
    compact.add_argument("--all", action="store_true", help="also steps that are not finished")
    compact.set_defaults(run=run_compact)
    vacuum = what.add_parser(
        "vacuum",
        help="remove files that no table names any more",
        description="Remove the files of parts that were replaced, and those that a killed host left, once they are so "
        "old that nobody can be reading or about to commit them.",
    )
    _add_lake(vacuum)
    vacuum.add_argument("--older-than", default="7d", metavar="AGE", help="such as 12h or 7d (default: 7d)")
    vacuum.add_argument("--force", action="store_true", help="allow less than an hour; only while nobody uses the lake")
    vacuum.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    vacuum.set_defaults(run=run_vacuum)


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "lake", nargs="?", metavar="URL", help="s3://, gs://, az:// or a folder (default: ROLLTRACE_LAKE)"
    )
    add_json(parser)


def _lake_of(options: argparse.Namespace) -> Any:
    from rolltrace.lake import VARIABLE, LakeAddress

    address = options.lake or os.environ.get(VARIABLE)
    if not address:
        raise ConfigError(f"name the lake, such as s3://bucket/prefix, or set {VARIABLE}")
    return LakeAddress.of(address)


def run_compact(options: argparse.Namespace) -> int:
    from rolltrace.lake import compact_lake, mirror_of, open_mirror, upload_summaries

    address = _lake_of(options)
    done = compact_lake(address, unfinished=options.all, progress=progress("merging"))
    from rolltrace.query import summarise_steps
    from rolltrace.store import finished_steps

    with working("making summaries"):
        mirror = mirror_of(address.url)
        open_mirror(mirror).refresh()
        summarise_steps(mirror, steps=None if options.all else finished_steps(mirror))
        summaries = upload_summaries(address, mirror)
    if options.json:
        print(json_line({**done._asdict(), "summaries": summaries}))
        return 0
    print(f"{done.fewer} fewer parts in {counted(done.steps, 'step')}; {counted(summaries, 'step')} summarised")
    if done.conflicts:
        print(f"{done.conflicts} tables of steps were changed meanwhile; they are merged the next time")
    return 0


def run_vacuum(options: argparse.Namespace) -> int:
    from rolltrace.lake import vacuum_lake

    address, age = _lake_of(options), age_sec("--older-than", options.older_than)
    if age < _SHORTEST_SEC and not options.force:
        raise ConfigError(
            f"--older-than {options.older_than} is less than an hour: files that somebody is about to commit or "
            "read would be removed; add --force while nobody uses the lake"
        )
    removed = vacuum_lake(address, age / 3600, dry_run=options.dry_run)
    if options.json:
        print(json_line({"removed": removed, "dry_run": options.dry_run}))
        return 0
    for path in removed if options.dry_run else ():
        print(plain(path))
    print(f"{'would remove' if options.dry_run else 'removed'} {counted(len(removed), 'file')}")
    return 0
