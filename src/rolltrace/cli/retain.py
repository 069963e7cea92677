"""`rolltrace retain`: what a store keeps of finished steps, by their outcome."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._launch import remove_replaced_later
from rolltrace.cli.output import (
    add_all_hosts,
    add_json,
    add_store,
    counted,
    json_line,
    plain,
    size,
    store_of,
    tell_of_other_hosts,
)
from rolltrace.errors import ConfigError, StoreError
from rolltrace.journal import drainer_lock, journal_folder

if TYPE_CHECKING:
    from rolltrace.keeper.policy import Policy
    from rolltrace.keeper.retention import Decision

_TRIES = 5


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "retain",
        help="keep what is worth it, by outcome",
        description="Show, set or take away the policy by which the drainer removes payloads of finished steps, groups "
        "whole. Options that are not given stay as they are, or have their defaults.",
        epilog="rolltrace retain --keep errors,extremes,slowest,flagged --share 0.1; rolltrace retain --share 0.5 "
        "--dry-run; rolltrace retain --now; rolltrace retain --off",
    )
    add_store(parser)
    policy = parser.add_argument_group("the policy")
    policy.add_argument("--keep", metavar="WORDS", help="of errors, extremes, slowest, flagged (default: all four)")
    policy.add_argument("--share", type=float, metavar="0..1", help="how much of the rest is kept (default: 0)")
    policy.add_argument("--slowest-percent", type=float, metavar="P", help="of each step (default: 5)")
    policy.add_argument("--flags", metavar="FLAGS", help="which flags count as flagged (default: any)")
    policy.add_argument(
        "--after-steps", type=int, metavar="N", help="how many later steps must have begun (default: 1)"
    )
    policy.add_argument(
        "--whole",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="remove all rows but the summary, not only payloads",
    )
    policy.add_argument("--seed", type=int, metavar="N", help="another number keeps another share (default: 0)")
    policy.add_argument("--experiments", metavar="NAMES", help="of these experiments only (default: all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--off", action="store_true", help="take the policy away")
    what.add_argument("--dry-run", action="store_true", help="only say what such a policy would drop")
    what.add_argument("--now", action="store_true", help="apply it now, and not when the drainer next has time")
    add_all_hosts(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.keeper.policy import Policy, checked, read_policy, write_policy

    path = store_of(options)
    given = _given(options)
    if options.off:
        if given:
            raise ConfigError(
                f"--off takes the policy away; it goes with no other option, such as --{next(iter(given))}"
            )
        write_policy(path, None)
        print(json_line({"policy": None}) if options.json else "no policy: everything is kept")
        return 0
    policy = read_policy(path)
    if given:
        before = policy or Policy()
        policy = checked(Policy(**{name: getattr(before, name) for name in Policy.__struct_fields__} | given))
        if not options.dry_run:
            write_policy(path, policy)
    if policy is None:
        print(
            json_line({"policy": None})
            if options.json
            else "no policy: everything is kept; set one: rolltrace retain --keep errors,extremes --share 0.1"
        )
        return 0
    return _apply(path, policy, options) if options.now else _show(path, policy, options)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    lists = {
        name: tuple(word.strip() for word in getattr(options, name).split(",") if word.strip())
        for name in ("keep", "flags", "experiments")
        if getattr(options, name) is not None
    }
    plain_ones = ("share", "slowest_percent", "after_steps", "whole", "seed")
    return lists | {name: getattr(options, name) for name in plain_ones if getattr(options, name) is not None}


def _show(path: Path, policy: Policy, options: argparse.Namespace) -> int:
    import msgspec

    decision, drop = _foresee(path, policy)
    fields = msgspec.to_builtins(policy)
    if options.json:
        shown = {"policy": fields, "steps": len(decision.steps), "would_drop": drop, "keeps": dict(decision.keep)}
        print(json_line(shown))
        return 0
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            value = ", ".join(value) or ("nothing" if name == "keep" else "all")
        print(f"  {name:<16} {plain(value)}")
    kept = "".join(f", keep {count} ({reason})" for reason, count in decision.keep.most_common())
    steps = counted(len(decision.steps), "finished step")
    print(f"{steps} to look at: would drop {counted(drop, 'trajectory')}{kept}")
    return 0


def _foresee(path: Path, policy: Policy) -> tuple[Decision, int]:
    """What the policy says now, and how many trajectories have something to lose."""
    from rolltrace.keeper.retention import decide
    from rolltrace.store import prunable

    for _ in range(_TRIES):
        try:
            decision = decide(path, policy)
            steps = set(decision.steps)
            found = prunable(path, decision.drop, whole=policy.whole, steps=steps.__contains__)
            return decision, sum(map(len, found.values()))
        except FileNotFoundError:  # compacted while we looked
            continue
    raise StoreError(f"the store {str(path)!r} changes all the time; try again later")


def _apply(path: Path, policy: Policy, options: argparse.Namespace) -> int:
    from rolltrace.keeper.retention import retain
    from rolltrace.store import GRACE_SEC, Owned

    with drainer_lock(journal_folder(path)) as alone:
        if not alone:
            print(
                "rolltrace: a drainer is running on this store; it applies the policy by itself as soon as it has time",
                file=sys.stderr,
            )
            return 1
        done = retain(path, policy, owned=Owned(path, all_hosts=options.all_hosts))
    tell_of_other_hosts(path, options)
    remove_replaced_later(path, GRACE_SEC + 1)
    if options.json:
        print(json_line({"steps": done.steps, **done.pruned._asdict()}))
    else:
        dropped = counted(done.pruned.trajectories, "trajectory")
        print(f"{counted(done.steps, 'finished step')}: dropped {dropped}, {size(done.pruned.bytes)} less")
    return 0
