"""`rolltrace store retain`: what a store keeps of finished steps, by their outcome."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rolltrace._amounts import counted, size
from rolltrace.cli.command import command, one_of, option, section
from rolltrace.cli.options import JSON, STORE, YES, Options, amount
from rolltrace.cli.output import json_line, plain, working
from rolltrace.errors import ConfigError

if TYPE_CHECKING:
    from rolltrace.keeper import Decision, Foreseen, RetentionPolicy

_NOTHING = "none"
"""The word of `--keep` for nothing but the share."""


@command(
    "keep what is worth it, by outcome",
    "Show, set or remove the policy by which the drainer removes payloads of finished steps, whole groups at a time. "
    "Options that are not given keep their values. A policy that would remove something is shown first, and has to be "
    "confirmed.",
    STORE,
    section(
        "the policy",
        option("--keep WORDS", "of errors, extremes, slowest, flagged (default: all four), or none"),
        option("--share 0..1", "how much of the rest is kept (default: 0)", type=click.FLOAT),
        option("--slowest-percent P", "of each step (default: 5)", type=click.FLOAT),
        option("--flags FLAGS", "which flags count as flagged (default: any)"),
        option("--after-steps N", "how many later steps must have begun (default: 1)"),
        option("--whole/--no-whole", "remove all rows but the summary, not only payloads", default=None),
        option("--seed N", "another seed keeps a different share (default: 0)"),
        option("--experiments NAMES", "of these experiments only (default: all)"),
    ),
    one_of(
        option("--off", "remove the policy"),
        option("--dry-run", "only print what the policy would remove"),
        option("--now", "apply it now instead of when the drainer is next idle"),
    ),
    YES,
    JSON,
    epilog="""examples:
  rolltrace store retain --keep errors,extremes,slowest,flagged --share 0.1
  rolltrace store retain --share 0.5 --dry-run
  rolltrace store retain --now
  rolltrace store retain --off""",
)
def retain(options: Options) -> int:
    from rolltrace.keeper import read_policy, write_policy

    settings = _settings(options)
    path = options.store_path(to_write=not options.dry_run and (options.off or options.now or bool(settings)))
    if options.off:
        if settings:
            raise ConfigError(f"--off removes the policy; it cannot be combined with --{next(iter(settings))}")
        write_policy(path, None)
        options.report({"policy": None}, "no policy: everything is kept")
        return 0
    policy = _with(settings, read_policy(path))
    if policy is None:
        hint = "set one: rolltrace store retain --keep errors,extremes --share 0.1"
        options.report({"policy": None}, f"no policy: everything is kept; {hint}")
        return 0
    with working("finding what would be removed"):
        decision, foreseen = _foresee(path, policy)
    if not options.now:
        _show(policy, decision, foreseen, options)
    removes = (options.now or settings) and not options.dry_run
    if removes and foreseen.trajectories and not options.is_agreed(_what(policy, foreseen, options)):
        return 1
    if settings and not options.dry_run:
        write_policy(path, policy)
    return _apply(path, policy, decision, options) if options.now else 0


def _settings(options: Options) -> dict[str, Any]:
    """The options of the policy that were given.

    Raises:
        ConfigError: one that lists names has none.
    """
    listed: dict[str, Any] = {}
    for name in ("keep", "flags", "experiments"):
        if getattr(options, name) is not None:
            words = tuple(word.strip() for word in getattr(options, name).split(",") if word.strip())
            if not words:
                hint = f", or write --keep {_NOTHING}" if name == "keep" else ""
                raise ConfigError(f"--{name} is empty; leave it out{hint}")
            listed[name] = () if name == "keep" and words == (_NOTHING,) else words
    others = ("share", "slowest_percent", "after_steps", "whole", "seed")
    return listed | {name: getattr(options, name) for name in others if getattr(options, name) is not None}


def _with(settings: dict[str, Any], policy: RetentionPolicy | None) -> RetentionPolicy | None:
    """The policy with these settings; None if there is neither."""
    import msgspec

    from rolltrace.keeper import RetentionPolicy, check_policy

    if not settings:
        return policy
    return check_policy(msgspec.structs.replace(policy or RetentionPolicy(), **settings))


def _foresee(path: Path, policy: RetentionPolicy) -> tuple[Decision, Foreseen]:
    """What the policy says now, and what that would cost."""
    from rolltrace.keeper import decide, foresee
    from rolltrace.query import open_store

    open_store(path).refresh()  # a reward in a journal may be what keeps a trajectory
    decision = decide(path, policy)
    return decision, foresee(path, decision.groups, decision.chosen, whole=policy.whole)


def _show(policy: RetentionPolicy, decision: Decision, foreseen: Foreseen, options: Options) -> None:
    import msgspec

    fields = msgspec.to_builtins(policy)
    if options.json:
        costs = {"would_drop": foreseen.trajectories, "groups": foreseen.groups, "bytes": foreseen.bytes}
        print(json_line({"policy": fields, "steps": len(decision.steps), **costs, "keeps": dict(decision.keep)}))
        return
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            value = ", ".join(value) or ("nothing" if name == "keep" else "all")
        print(f"  {name:<16} {plain(value)}")
    keeps = "".join(f", keep {count} ({reason})" for reason, count in decision.keep.most_common())
    steps = counted(len(decision.steps), "finished step")
    print(f"{steps} to look at: would drop {amount(foreseen)}{keeps}")


def _what(policy: RetentionPolicy, foreseen: Foreseen, options: Options) -> str:
    what = "all rows but the summary" if policy.whole else "the payloads"
    when = "now" if options.now else "as soon as the drainer has time, and later those of further steps"
    return f"remove {what} of {amount(foreseen)} {when}"


def _apply(path: Path, policy: RetentionPolicy, decision: Decision, options: Options) -> int:
    from rolltrace.keeper import retain

    done = retain(path, policy, decision=decision, at_once=True)
    dropped = f"dropped {counted(done.pruned.trajectories, 'trajectory')}, {size(max(done.pruned.bytes, 0))} less"
    fields = {"steps": done.steps, **done.pruned._asdict()}
    options.report(fields, f"{counted(done.steps, 'finished step')}: {dropped}")
    return 0
