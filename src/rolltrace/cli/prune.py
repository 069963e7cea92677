"""`rolltrace prune`: give space back."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, size
from rolltrace.cli.options import (
    add_json,
    add_store,
    add_yes,
    amount,
    is_agreed,
    store_of,
    tell_of_runs_not_meant,
)
from rolltrace.cli.output import json_line, progress, working

if TYPE_CHECKING:
    from rolltrace.keeper import Plan
    from rolltrace.query import Store


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "prune",
        help="give space back",
        description="Remove the payloads (inputs, outputs, tokens) of trajectories, or with --whole all their ops. The "
        "summary rows always stay, groups are kept or pruned whole, and what was removed is counted in the store. It "
        "prints what would be removed, and asks first.",
        epilog='rolltrace prune --older-than 30d; rolltrace prune --where "reward = 1" --dry-run; '
        "rolltrace prune --max-size 50GiB; to delete an experiment: rolltrace rm",
    )
    add_store(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--where",
        help="those that a filter finds, with the rest of their groups; of the newest run that reached their step, "
        "unless the filter asks about run or superseded",
    )
    which.add_argument("--older-than", metavar="AGE", help="groups that ended longer ago, such as 12h, 30d or 8w")
    which.add_argument("--max-size", metavar="SIZE", help="the oldest steps, until the data is smaller, such as 50GiB")
    parser.add_argument("--whole", action="store_true", help="all rows but the summary, not only payloads")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be pruned")
    add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.keeper import plan_pruning
    from rolltrace.query import open_store
    from rolltrace.tables import TableStore, address_in, prune_payloads

    path = store_of(options, to_write=not options.dry_run)
    store = open_store(path)
    with working("finding what would be removed"):
        plan = plan_pruning(
            store,
            where=options.where,
            older_than=options.older_than,
            max_size=options.max_size,
            whole=options.whole,
        )
    foreseen = plan.foreseen
    _tell(store, plan, options)
    if options.dry_run:
        fields = {"would_prune": foreseen.trajectories, "groups": foreseen.groups, "bytes": foreseen.bytes}
        print(json_line(fields) if options.json else f"would prune {amount(foreseen)}")
        return 0
    what = "all rows but the summary" if options.whole else "the payloads"
    if foreseen.trajectories and not is_agreed(options, f"remove {what} of {amount(foreseen)}"):
        return 1
    pruned = prune_payloads(
        TableStore(address_in(path)),
        plan.chosen,
        whole=options.whole,
        policy=_policy(options),
        at_once=True,
        progress=progress("pruning"),
    )
    if options.json:
        print(json_line(pruned._asdict()))
    else:
        rows = counted(pruned.rows, "row")
        stays = "; they stay listed: rolltrace rm deletes them" if options.whole or not pruned.trajectories else ""
        print(f"pruned {counted(pruned.trajectories, 'trajectory')}, {rows}, {size(max(pruned.bytes, 0))} less{stays}")
    return 0


def _policy(options: argparse.Namespace) -> str:
    """What was asked for, as it is kept beside what goes."""
    names = {"where": options.where, "older-than": options.older_than, "max-size": options.max_size}
    words = [f"--{name} {shlex.quote(value)}" for name, value in names.items() if value is not None]
    return " ".join(["prune", *words, *["--whole"] * options.whole])


def _tell(store: Store, plan: Plan, options: argparse.Namespace) -> None:
    """What somebody may not think of."""
    if plan.running:
        print(
            f"rolltrace: {counted(plan.running, 'trajectory')} left alone, because their groups are still running",
            file=sys.stderr,
        )
    if plan.unsent:
        print(
            f"rolltrace: {counted(plan.unsent, 'trajectory')} of these wait to be sent to a backend, which would get "
            "them without payloads; first: rolltrace sync --to BACKEND",
            file=sys.stderr,
        )
    tell_of_runs_not_meant(store, options.where)
