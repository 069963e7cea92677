"""`rolltrace prune`: give space back."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._launch import remove_replaced_later
from rolltrace.cli.output import (
    add_all_hosts,
    add_json,
    add_store,
    json_line,
    progress,
    store_of,
    tell_of_other_hosts,
)
from rolltrace.errors import ConfigError
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.settings import size_of

if TYPE_CHECKING:
    from rolltrace.query import Store

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_GROUP = ("project", "experiment", "step", "sample_index", "validate")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "prune",
        help="give space back",
        description="Remove the payloads (inputs, outputs, tokens) of trajectories, or with --whole all their ops. The "
        "summary rows always stay, groups are kept or pruned whole, and what was removed is counted in the store.",
        epilog='rolltrace prune --older-than 30d; rolltrace prune --where "reward = 1" --dry-run; '
        "rolltrace prune --max-size 50GiB",
    )
    add_store(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--where", help="those that a filter finds, with the rest of their groups")
    which.add_argument("--older-than", metavar="AGE", help="groups that ended before, such as 12h, 30d or 8w")
    which.add_argument("--max-size", metavar="SIZE", help="the oldest steps, until the data is below, such as 50GiB")
    parser.add_argument("--whole", action="store_true", help="all rows but the summary, not only payloads")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be pruned")
    add_all_hosts(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.query import open_store
    from rolltrace.store import GRACE_SEC, Owned, prune

    path = store_of(options)
    store = open_store(path)
    if options.where is not None:
        chosen = _whole_groups(store, {row["trajectory_id"] for row in store.trajectories(where=options.where).rows()})
    elif options.older_than is not None:
        chosen = _older(store, time.time_ns() - round(_age(options.older_than) * 1e9))
    else:
        chosen = _over_size(store, path, size_of("--max-size", options.max_size))
    if options.dry_run:
        print(json_line({"would_prune": len(chosen)}) if options.json else f"would prune {len(chosen)} trajectories")
        return 0
    with drainer_lock(journal_folder(path)) as alone:
        if not alone:
            print("rolltrace: a drainer is running on this store; try again when it is idle", file=sys.stderr)
            return 1
        owned = Owned(path, all_hosts=options.all_hosts)
        pruned = prune(path, chosen, whole=options.whole, owned=owned, progress=progress("pruning"))
    tell_of_other_hosts(path, options)
    remove_replaced_later(path, GRACE_SEC + 1)
    if options.json:
        print(json_line(pruned._asdict()))
    else:
        print(f"pruned {pruned.trajectories} trajectories, {pruned.rows} rows, {pruned.bytes / 1e6:.1f} MB")
    return 0


def _groups(store: Store) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in store.trajectories().rows():
        # Without a sample there is no group: each stands alone.
        key = tuple(row[name] for name in _GROUP) if row["sample_index"] is not None else (row["trajectory_id"],)
        groups.setdefault(key, []).append(row)
    return groups


def _whole_groups(store: Store, chosen: set[str]) -> set[str]:
    found = [rows for rows in _groups(store).values() if any(row["trajectory_id"] in chosen for row in rows)]
    return {row["trajectory_id"] for rows in found for row in rows}


def _older(store: Store, limit_ns: int) -> set[str]:
    """The groups of which every trajectory had ended by then."""
    found = [
        rows for rows in _groups(store).values() if all((row["end_ns"] or row["start_ns"]) < limit_ns for row in rows)
    ]
    return {row["trajectory_id"] for rows in found for row in rows if row["status"] != "running"}


def _over_size(store: Store, path: Path, limit: int) -> set[str]:
    """All trajectories of the steps that ended first, until what is left is below the limit."""
    from rolltrace.store import Partition

    steps: dict[Partition, list[dict[str, Any]]] = {}
    for row in store.trajectories().rows():
        steps.setdefault(Partition(row["project"], row["experiment"], row["step"]), []).append(row)
    sizes = {step: sum(file.stat().st_size for file in step.folder(path).glob("*.parquet")) for step in steps}
    left = sum(sizes.values())
    chosen: set[str] = set()
    for step in sorted(steps, key=lambda step: max(row["end_ns"] or row["start_ns"] for row in steps[step])):
        if left <= limit:
            break
        chosen |= {row["trajectory_id"] for row in steps[step] if row["status"] != "running"}
        left -= sizes[step]
    return chosen


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if match is None:
        raise ConfigError(f"--older-than must be an age such as 12h, 30d or 8w, not {text!r}")
    return float(match[1]) * _SECONDS[match[2]]
