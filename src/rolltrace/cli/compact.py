"""`rolltrace compact`: settle the steps of a store now."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace._amounts import counted
from rolltrace.cli.options import add_json, add_store, store_of
from rolltrace.cli.output import json_line, progress, working


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compact",
        help="merge the files of each step into one per table",
        description="Merge the files of each step into one per table, with one row per trajectory, and remove files "
        "that were replaced more than an hour ago; readers are not disturbed. Drainers do this by themselves when "
        "nothing has come to a step for a while. It can run on any host, at any time.",
    )
    add_store(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.keeper import vacuum
    from rolltrace.tables import TableStore, address_in, compact_place, moving_places, place_late_scores

    tables = TableStore(address_in(store_of(options, to_write=True)))
    place_late_scores(tables)
    places = moving_places(tables)
    show = progress("merging")
    files = conflicts = 0
    for done, place in enumerate(places):
        show(done, len(places))
        compacted = compact_place(tables, place)
        files, conflicts = files + compacted.removed, conflicts + compacted.conflicts
    show(len(places), len(places))
    with working("removing old files"):
        removed = vacuum(tables)
    if options.json:
        print(json_line({"steps": len(places), "files": files, "conflicts": conflicts, "removed": removed}))
        return 0
    print(f"{counted(files, 'file')} of {counted(len(places), 'step')} merged, {counted(removed, 'old file')} removed")
    if conflicts:
        print(f"{counted(conflicts, 'table')} changed meanwhile; they are merged the next time")
    return 0
