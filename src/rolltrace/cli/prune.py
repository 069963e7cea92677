"""`rolltrace prune`: give space back."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from rolltrace._launch import remove_replaced_later
from rolltrace.cli.output import (
    add_all_hosts,
    add_json,
    add_store,
    counted,
    json_line,
    progress,
    size,
    store_of,
    tell_of_other_hosts,
    tell_of_runs_not_meant,
    working,
)
from rolltrace.cli.removal import add_yes, amount, is_agreed
from rolltrace.errors import ConfigError
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.settings import size_of

if TYPE_CHECKING:
    from rolltrace.keeper.groups import Choice
    from rolltrace.keeper.pruning import Foreseen
    from rolltrace.query import Store

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "prune",
        help="give space back",
        description="Remove the payloads (inputs, outputs, tokens) of trajectories, or with --whole all their ops. The "
        "summary rows always stay, groups are kept or pruned whole, and what was removed is counted in the store. It "
        "prints what would be removed, and asks first.",
        epilog='rolltrace prune --older-than 30d; rolltrace prune --where "reward = 1" --dry-run; '
        "rolltrace prune --max-size 50GiB",
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
    add_all_hosts(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.keeper.pruning import foresee, undisturbed
    from rolltrace.keeper.retention import unsent
    from rolltrace.query import open_store
    from rolltrace.store import GRACE_SEC, Owned, prune

    path = store_of(options, to_write=not options.dry_run)
    store = open_store(path)
    owned = Owned(path, all_hosts=options.all_hosts)

    def look() -> tuple[Choice, Foreseen]:
        choice = _choose(store, options)
        return choice, foresee(path, choice.groups, whole=options.whole, owned=owned)

    with working("finding what would be removed"):
        choice, foreseen = undisturbed(path, look)
        still_to_send = len(choice.drop & unsent(store)) if choice.groups else 0
    _tell(store, choice, still_to_send, options)
    if options.dry_run:
        fields = {"would_prune": foreseen.trajectories, "groups": foreseen.groups, "bytes": foreseen.bytes}
        print(json_line(fields) if options.json else f"would prune {amount(foreseen)}")
        return 0
    what = "all rows but the summary" if options.whole else "the payloads"
    if foreseen.trajectories and not is_agreed(options, f"remove {what} of {amount(foreseen)}"):
        return 1
    with drainer_lock(journal_folder(path)) as alone:
        if not alone:
            print("rolltrace: a drainer is running on this store; try again when it is idle", file=sys.stderr)
            return 1
        pruned = prune(
            path, choice.drop, whole=options.whole, policy=_policy(options), owned=owned, progress=progress("pruning")
        )
    tell_of_other_hosts(path, options)
    remove_replaced_later(path, GRACE_SEC + 1)
    if options.json:
        print(json_line(pruned._asdict()))
    else:
        rows = counted(pruned.rows, "row")
        print(f"pruned {counted(pruned.trajectories, 'trajectory')}, {rows}, {size(max(pruned.bytes, 0))} less")
    return 0


def _policy(options: argparse.Namespace) -> str:
    """What was asked for, as it is kept beside what goes."""
    names = {"where": options.where, "older-than": options.older_than, "max-size": options.max_size}
    words = [f"--{name} {shlex.quote(value)}" for name, value in names.items() if value is not None]
    return " ".join(["prune", *words, *["--whole"] * options.whole])


def _choose(store: Store, options: argparse.Namespace) -> Choice:
    from rolltrace.keeper.pruning import above_size, ended_before, matching

    if options.where is not None:
        return matching(store, options.where)
    if options.older_than is not None:
        return ended_before(store, time.time_ns() - round(_age(options.older_than) * 1e9))
    return above_size(store, size_of("--max-size", options.max_size))


def _tell(store: Store, choice: Choice, still_to_send: int, options: argparse.Namespace) -> None:
    """What somebody may not think of."""
    if choice.keep:
        print(
            f"rolltrace: {counted(len(choice.keep), 'trajectory')} left alone, because their groups are still running "
            "or not drained yet",
            file=sys.stderr,
        )
    if still_to_send:
        print(
            f"rolltrace: {counted(still_to_send, 'trajectory')} of these wait to be sent to a backend, which would get "
            "them without payloads; first: rolltrace sync --to BACKEND",
            file=sys.stderr,
        )
    tell_of_runs_not_meant(store, options.where)


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if match is None:
        raise ConfigError(f"--older-than must be an age such as 12h, 30d or 8w, not {text!r}")
    return float(match[1]) * _SECONDS[match[2]]
