"""`rolltrace store prune` and `rm`: give space back, or delete an experiment, a run, or what a filter finds."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, size
from rolltrace.cli.command import command, one_of, option
from rolltrace.cli.options import (
    FILTERS,
    IDS,
    JSON,
    RULE,
    STORE,
    STORE_AFTER_IDS,
    STORE_OPTION,
    YES,
    Options,
    amount,
    tell_of_older_runs,
    tell_of_runs_not_meant,
)  # fmt: skip
from rolltrace.cli.output import plain, progress, warn, working
from rolltrace.errors import ConfigError, NotFoundError, StoreError

if TYPE_CHECKING:
    from rolltrace.keeper import Plan, Removal
    from rolltrace.query import Store
    from rolltrace.tables import Place, TableStore

_WHOLE = ("project", "experiment", "run")
"""What is deleted whole: with all runs, and with what was recorded for groups."""
_RM_EXAMPLES = """examples:
  rolltrace store rm --experiment grpo-7b-try1
  rolltrace store rm --run 20260817-101500-4f2a
  rolltrace store rm --where "status = 'error'" --experiment grpo-7b --dry-run
  rolltrace store rm 3f2a1b2c 9d0e77aa runs/store

to keep the listing and delete only what is large: rolltrace store prune"""


@command(
    "give space back",
    "Remove the payloads (inputs, outputs, tokens) of trajectories, or with --whole all their ops. The summary rows "
    "always stay, groups are kept or pruned whole, and what was removed is counted in the store. It prints what would "
    "be removed, and asks first.",
    STORE,
    one_of(
        option(
            "--where WHERE",
            "those that a filter finds, with the rest of their groups; of the newest run that reached their step, "
            "unless the filter asks about run or superseded",
        ),
        option("--older-than AGE", "groups that ended longer ago, such as 12h, 30d or 8w"),
        option("--max-size SIZE", "the oldest steps, until the data is smaller, such as 50GiB"),
        required=True,
    ),
    option("--whole", "all rows but the summary, not only payloads"),
    option("--dry-run", "only print what would be pruned"),
    YES,
    JSON,
    epilog='rolltrace store prune --older-than 30d; rolltrace store prune --where "reward = 1" --dry-run; '
    "rolltrace store prune --max-size 50GiB; to delete an experiment: rolltrace store rm",
)
def prune(options: Options) -> int:
    from rolltrace.keeper import plan_pruning
    from rolltrace.tables import TableStore, address_in, prune_payloads

    store = options.open_store(to_write=not options.dry_run)
    which = {name: getattr(options, name) for name in ("where", "older_than", "max_size")}
    with working("finding what would be removed"):
        plan = plan_pruning(store, **which, whole=options.whole)
    foreseen = plan.foreseen
    _tell(store, plan, options)
    if options.dry_run:
        fields = {"would_prune": foreseen.trajectories, "groups": foreseen.groups, "bytes": foreseen.bytes}
        options.report(fields, f"would prune {amount(foreseen)}")
        return 0
    what = "all rows but the summary" if options.whole else "the payloads"
    if foreseen.trajectories and not options.is_agreed(f"remove {what} of {amount(foreseen)}"):
        return 1
    words = [f"--{name.replace('_', '-')} {shlex.quote(value)}" for name, value in which.items() if value is not None]
    policy = " ".join(["prune", *words, *["--whole"] * options.whole])  # kept beside what goes
    pruned = prune_payloads(
        TableStore(address_in(store.path)),
        plan.chosen,
        whole=options.whole,
        policy=policy,
        at_once=True,
        progress=progress("pruning"),
    )
    done = f"pruned {counted(pruned.trajectories, 'trajectory')}, {counted(pruned.rows, 'row')}"
    stays = "; they stay listed: rolltrace store rm deletes them" if options.whole or not pruned.trajectories else ""
    options.report(pruned._asdict(), f"{done}, {size(max(pruned.bytes, 0))} less{stays}")
    return 0


def _tell(store: Store, plan: Plan, options: Options) -> None:
    """Say what somebody may not think of."""
    if plan.running:
        warn(f"{counted(plan.running, 'trajectory')} left alone, because their groups are still running")
    if plan.unsent:
        waiting = f"{counted(plan.unsent, 'trajectory')} of these wait to be sent to a backend"
        warn(f"{waiting}, which would get them without payloads; first: rolltrace sync --to BACKEND")
    tell_of_runs_not_meant(store, options.where)


@command(
    "delete an experiment, a run, or some trajectories",
    "Delete trajectories with all that was recorded of them: an experiment with all its runs, one run, those that a "
    "filter finds, or those that are named. It says what would go and how many bytes that gives back, and asks first. "
    "What is still running is left alone. Images go with the last trajectory of their experiment, because others may "
    "show the same; what backends were sent stays there.",
    IDS,
    STORE_OPTION,
    STORE_AFTER_IDS,
    FILTERS,
    RULE,
    option("--dry-run", "only print what would be deleted"),
    YES,
    JSON,
    epilog=_RM_EXAMPLES,
)
def rm(options: Options) -> int:
    given = {name: value for name, value in options.filters.items() if value is not None and name != "all_runs"}
    if bool(given) == bool(options.ids):
        raise ConfigError("say what to delete: --experiment NAME, --run ID, --where FILTER, or ids of trajectories")
    from rolltrace.tables import TableStore, address_in, estimate_removal, remove_trajectories

    store = options.open_store(to_write=not options.dry_run)
    tables = TableStore(address_in(store.path))
    store.refresh()
    with working("finding what would be deleted"):
        chosen, whole, running = _choose(store, options, given)
        foreseen = estimate_removal(tables, chosen, whole)
    if running:
        warn(f"{counted(running, 'trajectory')} left alone, because they are still running")
    places = sorted({f"{plain(each.project)} / {plain(each.experiment)}" for each in chosen})
    where = f"of {places[0]}" if len(places) == 1 else f"of {len(places)} experiments"
    what = f"{counted(foreseen.trajectories, 'trajectory')} {where} ({counted(len(chosen), 'step')}"
    if options.dry_run:
        fields = {"would_delete": foreseen.trajectories, "steps": len(chosen), "bytes": foreseen.bytes}
        options.report(fields, f"would delete {what}, about {size(foreseen.bytes)})")
        return 0
    if not chosen:
        raise StoreError("nothing was deleted: try again when these trajectories have ended")
    if not options.is_agreed(f"delete {what}, about {size(foreseen.bytes)})"):
        return 1
    removed = remove_trajectories(tables, chosen, whole, progress=progress("deleting"))
    _forget_pass(store.path, tables, chosen)
    given_back = max(removed.bytes, 0)  # what is left of small files may take more room than they did
    fields = {"deleted": removed.trajectories, "steps": len(chosen), "bytes": given_back}
    options.report(fields, f"deleted {what}); {size(given_back)} given back")
    return 0


def _forget_pass(store: Path, tables: TableStore, chosen: Collection[Place]) -> None:
    """Forget what pass meant in experiments of which nothing is left."""
    from rolltrace.tables import forget_pass_rule

    left = {file.place[:2] for file in tables.files("trajectories")}
    for project, experiment in {place[:2] for place in chosen} - left:
        forget_pass_rule(store, project, experiment)


def _choose(store: Store, options: Options, given: dict[str, Any]) -> Removal:
    from rolltrace.keeper import plan_removal

    if options.ids:
        return plan_removal(store.path, {store.full_id(each) for each in options.ids})
    is_whole = all(name in _WHOLE for name in given)
    all_runs = {"all_runs": True} if is_whole and "run" not in given else {}
    listing = store.trajectories(**{**options.filters, **all_runs, **options.rule})
    tell_of_older_runs(listing.older_runs)
    if not len(listing):
        raise NotFoundError(listing.why_empty())
    return plan_removal(store.path, set(listing.arrow()["trajectory_id"].to_pylist()), given if is_whole else {})
