"""`rolltrace rm`: delete an experiment, a run, or what a filter finds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, size
from rolltrace.cli.options import (
    add_filters,
    add_json,
    add_store,
    add_yes,
    ends_in_no_id,
    filters_of,
    is_agreed,
    open_asked,
    store_after,
    store_of,
    tell_of_older_runs,
)
from rolltrace.cli.output import json_line, plain, progress, working
from rolltrace.errors import ConfigError, NotFoundError, StoreError

if TYPE_CHECKING:
    from rolltrace.keeper import Removal
    from rolltrace.query import Store
    from rolltrace.tables import Place, TableStore

_WHOLE = ("project", "experiment", "run")
"""What is deleted whole: with all runs, and with what was recorded for groups."""
_EXAMPLES = """examples:
  rolltrace rm --experiment grpo-7b-try1
  rolltrace rm --run 20260817-101500-4f2a
  rolltrace rm --where "status = 'error'" --experiment grpo-7b --dry-run
  rolltrace rm 3f2a1b2c 9d0e77aa runs/store

to keep the listing and delete only what is large: rolltrace prune"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "rm",
        help="delete an experiment, a run, or some trajectories",
        description="Delete trajectories with all that was recorded of them: an experiment with all its runs, one run, "
        "those that a filter finds, or those that are named. It says what would go and how many bytes that gives back, "
        "and asks first. What is still running is left alone. Images go with the last trajectory of their experiment, "
        "because others may show the same; what backends were sent stays there.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="ids of trajectories, or prefixes of them")
    add_store(parser, last=False)
    store_after(parser, "ids", ends_in_no_id)
    add_filters(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    given = {name: value for name, value in filters_of(options).items() if value is not None and name != "all_runs"}
    if bool(given) == bool(options.ids):
        raise ConfigError("say what to delete: --experiment NAME, --run ID, --where FILTER, or ids of trajectories")
    from rolltrace.tables import TableStore, address_in, estimate_removal, remove_trajectories

    path = store_of(options, to_write=not options.dry_run)
    store, tables = open_asked(options), TableStore(address_in(path))
    store.refresh()
    with working("finding what would be deleted"):
        chosen, whole, running = _choose(store, options, given)
        foreseen = estimate_removal(tables, chosen, whole)
    if running:
        print(
            f"rolltrace: {counted(running, 'trajectory')} left alone, because they are still running", file=sys.stderr
        )
    places = sorted({f"{plain(each.project)} / {plain(each.experiment)}" for each in chosen})
    where = f"of {places[0]}" if len(places) == 1 else f"of {len(places)} experiments"
    what = f"{counted(foreseen.trajectories, 'trajectory')} {where} ({counted(len(chosen), 'step')}"
    if options.dry_run:
        fields = {"would_delete": foreseen.trajectories, "steps": len(chosen), "bytes": foreseen.bytes}
        print(json_line(fields) if options.json else f"would delete {what}, about {size(foreseen.bytes)})")
        return 0
    if not chosen:
        raise StoreError("nothing was deleted: try again when these trajectories have ended")
    if not is_agreed(options, f"delete {what}, about {size(foreseen.bytes)})"):
        return 1
    removed = remove_trajectories(tables, chosen, whole, progress=progress("deleting"))
    _forget_pass(path, tables, chosen)
    given_back = max(removed.bytes, 0)  # what is left of small files may take more room than they did
    if options.json:
        print(json_line({"deleted": removed.trajectories, "steps": len(chosen), "bytes": given_back}))
    else:
        print(f"deleted {what}); {size(given_back)} given back")
    return 0


def _forget_pass(store: Path, tables: TableStore, chosen: Collection[Place]) -> None:
    """What pass meant in experiments of which nothing is left."""
    from rolltrace.tables import forget_pass_rule

    left = {file.place[:2] for file in tables.files("trajectories")}
    for project, experiment in {place[:2] for place in chosen} - left:
        forget_pass_rule(store, project, experiment)


def _choose(store: Store, options: argparse.Namespace, given: dict[str, Any]) -> Removal:
    from rolltrace.keeper import plan_removal

    if options.ids:
        return plan_removal(store.path, {store.full_id(each) for each in options.ids})
    is_whole = all(name in _WHOLE for name in given)
    all_runs = {"all_runs": True} if is_whole and "run" not in given else {}
    listing = store.trajectories(**{**filters_of(options), **all_runs})
    tell_of_older_runs(listing.older_runs)
    if not len(listing):
        raise NotFoundError(listing.why_empty())
    return plan_removal(store.path, set(listing.arrow()["trajectory_id"].to_pylist()), given if is_whole else {})
