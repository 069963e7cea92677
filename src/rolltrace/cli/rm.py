"""`rolltrace rm`: delete an experiment, a run, or what a filter finds."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, size
from rolltrace._launch import remove_replaced_later
from rolltrace.cli.duty import upkeep_duty
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
from rolltrace.journal import drainer_is_running

if TYPE_CHECKING:
    from rolltrace.keeper import Removal
    from rolltrace.query import Store

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
        "and asks first. What is still running is left alone. Images stay, because other trajectories may show the "
        "same, and so does what backends were sent.",
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
    from rolltrace.keeper import run_once, shipping_reports
    from rolltrace.store import GRACE_SEC, removable, remove

    path = store_of(options, to_write=not options.dry_run)
    if not options.dry_run and not drainer_is_running(path):
        with working(f"draining {path}"):
            run_once(path)
    store = open_asked(options)
    with working("finding what would be deleted"):
        chosen, scores, left_alone = _choose(store, options, given)
        foreseen = removable(path, chosen)
    if left_alone:
        print(
            f"rolltrace: {counted(left_alone, 'trajectory')} left alone, because they are still running or not drained "
            "yet",
            file=sys.stderr,
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
    with upkeep_duty(path, "a drainer is running on this store; try again when it is idle") as epoch:
        if epoch is None:
            return 1
        has_lake = bool(shipping_reports(path))
        removed = remove(path, chosen, scores=scores, leave_empty=has_lake, epoch=epoch, progress=progress("deleting"))
    given_back = max(removed.bytes, 0)  # what is left of small parts may take more room than they did
    remove_replaced_later(path, GRACE_SEC + 1)
    if options.json:
        print(json_line({"deleted": removed.trajectories, "steps": len(chosen), "bytes": given_back}))
    else:
        print(f"deleted {what}); {size(given_back)} are given back within a minute")
    return 0


def _choose(store: Store, options: argparse.Namespace, given: dict[str, Any]) -> Removal:
    from rolltrace.keeper import plan_removal

    if options.ids:
        return plan_removal(store, {store.full_id(each) for each in options.ids})
    is_whole = all(name in _WHOLE for name in given)
    all_runs = {"all_runs": True} if is_whole and "run" not in given else {}
    listing = store.trajectories(**{**filters_of(options), **all_runs})
    tell_of_older_runs(listing.older_runs)
    if not len(listing):
        raise NotFoundError(listing.why_empty())
    return plan_removal(store, set(listing.arrow()["trajectory_id"].to_pylist()), given if is_whole else {})
