"""Arguments that several commands have: which store, which trajectories, whether to remove something for good; and what
to say about an answer because of them."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._address import is_address
from rolltrace._amounts import counted, size
from rolltrace.cli.output import plain
from rolltrace.errors import ConfigError, StoreError
from rolltrace.files import check_store, read_problem, write_problem
from rolltrace.settings import Settings, variable_of

if TYPE_CHECKING:
    from rolltrace.keeper import Foreseen
    from rolltrace.pass_rule import PassMeaning
    from rolltrace.query import OlderRuns, Result, Store

_FEW_HOSTS = 4
IS_ID = re.compile(r"[0-9a-f]{4,32}")
"""Of a trajectory, or a prefix."""


def add_store(parser: argparse.ArgumentParser, *, last: bool = True) -> None:
    """The store, the same in all commands: the last argument, or `--store`.

    Args:
        parser: Of the command.
        last: Whether argparse can tell the last argument from the others; if not, the command does: `store_after`.
    """
    default = "the store folder (default: ROLLTRACE_STORE, or ~/.rolltrace)"
    if last:
        parser.add_argument("store", nargs="?", metavar="STORE", help=default)
    else:
        parser.set_defaults(store=None)
    parser.add_argument(
        "--store", dest="store_option", metavar="STORE", help="the same, as an option" if last else default
    )


def store_after(parser: argparse.ArgumentParser, dest: str, is_store: Callable[[Sequence[str]], bool]) -> None:
    """Say that the last of several words may be the store: `is_store` tells, `find_store` takes it from there."""
    parser.set_defaults(store_after=(dest, is_store))


def find_store(options: argparse.Namespace) -> None:
    """Take the store from the words that it stands behind, if it was not given elsewhere."""
    dest, is_store = getattr(options, "store_after", ("", None))
    if is_store is not None and options.store is None and options.store_option is None:
        words = getattr(options, dest)
        if words and is_store(words):
            setattr(options, dest, words[:-1])
            options.store = words[-1]


def ends_in_no_id(words: Sequence[str]) -> bool:
    """Whether the last of these words cannot be the id of a trajectory, or a prefix of one."""
    return IS_ID.fullmatch(words[-1].lower()) is None


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def add_order(parser: argparse.ArgumentParser, example: str) -> None:
    parser.add_argument(
        "--order", metavar="NAMES", help=f"sort by these, such as {example} (prefix - for descending order)"
    )


def count(text: str) -> int:
    """A number of rows, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more; not {text!r}")
    return int(text)


def add_filters(parser: argparse.ArgumentParser, *, several_experiments: bool = False) -> None:
    """Options that say which trajectories are meant; `filters_of` reads them."""
    group = parser.add_argument_group("which trajectories")
    group.add_argument("--project", metavar="NAME")
    if several_experiments:
        group.add_argument("--experiment", metavar="NAME", action="append", help="may be given several times")
    else:
        group.add_argument("--experiment", metavar="NAME")
    group.add_argument("--step", type=int, metavar="N", help="training step")
    group.add_argument("--sample", metavar="S", help="sample index, a number or a text")
    group.add_argument("--rollout", type=int, metavar="N", help="which rollout of the sample")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--validate", action="store_true", default=None, help="validation only")
    which.add_argument("--train", dest="validate", action="store_false", default=None, help="training only")
    add_runs(group)
    group.add_argument("--where", metavar="FILTER", help="such as \"reward < 0.5 and tool = 'search'\"")


def add_runs(parser: argparse._ActionsContainer) -> None:
    """Options that say which runs are meant; `runs_of` reads them."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", dest="only_run", metavar="ID", help="this run only")
    which.add_argument("--all-runs", action="store_true", help="older attempts at a step too, not only the newest run")


def filters_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_filters` as arguments of `Store.trajectories`."""
    return {
        "project": options.project,
        "experiment": options.experiment,
        "step": options.step,
        "sample_index": options.sample,
        "rollout_n": options.rollout,
        "validate": options.validate,
        "where": options.where,
        **runs_of(options),
    }


def add_pass(parser: argparse.ArgumentParser) -> None:
    """Options that say what pass means, the same in all commands; `pass_of` reads them."""
    group = parser.add_argument_group("what pass means (default: what is stored with the experiment, else reward > 0)")
    group.add_argument("--term", metavar="NAME", help="this reward term is at least --threshold, or 1")
    group.add_argument("--threshold", type=float, metavar="X", help="the reward, or --term, is at least X")
    group.add_argument(
        "--save", action="store_true", help="store this with the experiment, for all commands and the viewer"
    )


def pass_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_pass` that were given, as arguments of `Store.groups`."""
    given = {"term": options.term, "threshold": options.threshold}
    return {name: value for name, value in given.items() if value is not None}


def pass_meanings(options: argparse.Namespace, store: Store) -> list[PassMeaning]:
    """What pass means in the experiments that a command is about; stores it first if that is asked for."""
    named = getattr(options, "experiment", None)
    names: list[str | None] = named if isinstance(named, list) else [named]
    rule, project = pass_of(options), getattr(options, "project", None)
    if options.save and not rule:
        options.usage_error("--save stores what --term or --threshold say; add one of them")
    meanings = []
    for name in names:
        if options.save:
            for meaning in store.set_pass(project=project, experiment=name, **rule):
                place = plain(f"{meaning.project} / {meaning.experiment}")
                print(f"rolltrace: stored with {place}: {plain(meaning.text)}", file=sys.stderr)
        meanings += store.pass_meanings(project=project, experiment=name, **rule)
    for meaning in meanings:
        if meaning.problem is not None:
            print(
                f"rolltrace: pass is stored as {plain(meaning.rule.text)}, but {plain(meaning.problem)}; "
                "choose another with --term NAME --save",
                file=sys.stderr,
            )
    return meanings


class PassWords(NamedTuple):
    """How a table speaks of what passed."""

    title: str
    """Of the column: `pass`, or `reward > 0` where nobody has chosen and rewards are not 0 or 1."""
    facts: list[str]
    """What is said below the table: `pass: correct >= 1`, of which experiment if they differ."""


def pass_words(meanings: Sequence[PassMeaning], rows: Sequence[Mapping[str, Any]]) -> PassWords:
    """The words for the experiments that some rows are of."""
    meant = _shown(meanings, rows)
    title = plain(" or ".join(dict.fromkeys(each.title for each in meant)))
    facts = _per_experiment(meant, [each.text for each in meant])
    return PassWords(title or "pass", [fact for fact in facts if fact != title])


def pass_rules(meanings: Sequence[PassMeaning], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is said below a table that has a column `passed`."""
    meant = _shown(meanings, rows)
    texts = [each.text if each.title == "pass" else f"passed: {each.text}" for each in meant]
    return _per_experiment(meant, texts)


def _shown(meanings: Sequence[PassMeaning], rows: Sequence[Mapping[str, Any]]) -> list[PassMeaning]:
    shown = {(row["project"], row["experiment"]) for row in rows}
    return [each for each in meanings if (each.project, each.experiment) in shown]


def _per_experiment(meanings: Sequence[PassMeaning], texts: Sequence[str]) -> list[str]:
    """The text of each; one that all have is said once, others with their experiment."""
    if len(set(texts)) < 2:
        return [plain(text) for text in texts[:1]]
    return [plain(f"{text} ({each.project} / {each.experiment})") for each, text in zip(meanings, texts)]


def runs_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_runs` that were given, as arguments of `Store.trajectories`."""
    chosen: dict[str, Any] = {} if options.only_run is None else {"run": options.only_run}
    return {**chosen, "all_runs": True} if options.all_runs else chosen


def tell_of_older_runs(older: OlderRuns) -> None:
    """Say what was left out because a newer run reached the same step."""
    if older.trajectories:
        print(
            f"rolltrace: {older}; show them with --all-runs or --run ID (rolltrace ls --experiments lists the runs)",
            file=sys.stderr,
        )


def tell_of_runs_not_meant(store: Store, where: str | None, **conditions: Any) -> None:
    """Say how much of what a filter finds is left out because it is of older runs, where only the filter names runs."""
    if where is not None:
        older = store.trajectories(where=where, limit=0, **conditions).older_runs
        if older.trajectories:
            print(
                f"rolltrace: {counted(older.trajectories, 'trajectory')} of older runs left out; to include them: "
                f"--where {shlex.quote(plain(f'superseded = true and ({where})'))}",
                file=sys.stderr,
            )


def named_store(options: argparse.Namespace) -> Path | None:
    """The store that a command is about, whether there is one or not; None for a command without."""
    if not hasattr(options, "store_option"):
        return None
    named, last = options.store_option, getattr(options, "store", None)
    text = _named(last if named is None else named)
    return None if is_address(text) else Settings.gather({"store": text}).store.expanduser()


def _named(text: str | None) -> str | None:
    """What somebody named, as an argument or in the environment."""
    return text or os.environ.get(variable_of("store")) or None


def tell_of_nothing(answer: Result, *, as_json: bool = False) -> None:
    """Say that there is nothing, in which store, and what there is instead; on stderr where stdout is for programs."""
    print(f"{'rolltrace: ' * as_json}{plain(answer.why_empty())}", file=sys.stderr if as_json else sys.stdout)


def store_of(
    options: argparse.Namespace, *, may_be_new: bool = False, may_be_empty: bool = False, to_write: bool = False
) -> Path:
    """The store a command was asked about.

    Args:
        options: Of the command.
        may_be_new: The command can make a store, where there is nothing or an empty folder.
        may_be_empty: The command only reads, and shows an empty folder as an empty store: a run may be about to begin.
        to_write: The command changes it.

    Raises:
        StoreError: there is no store, and the command does not make one there; or it can only be read.
    """
    named, last = options.store_option, getattr(options, "store", None)
    if named is not None and last is not None and named != last:
        raise ConfigError(f"two stores were given, {last!r} and --store {named!r}; give only one")
    text = _named(last if named is None else named)
    store = Settings.gather({"store": text}).store.expanduser()
    if store.is_dir() and not os.access(store, os.R_OK | os.X_OK):
        raise StoreError(
            f"cannot read the store {str(store)!r}: {read_problem(store, PermissionError('no permission'))}"
        )
    try:
        check_store(store, may_be_empty=may_be_empty)
    except StoreError as fault:
        is_free = not store.exists() or (store.is_dir() and not any(store.iterdir()))
        if may_be_new and is_free:
            return store
        what = "name a new folder or a store" if may_be_new else "name one"
        raise StoreError(f"{fault}; {what}: rolltrace COMMAND --store STORE") from None
    if to_write and (problem := write_problem(store)) is not None:
        raise StoreError(f"the store {str(store)!r} can only be read: {problem}")
    return store


def open_asked(options: argparse.Namespace, *, to_write: bool = False) -> Store:
    """The store that a command was asked about, which has the project, experiment and run that were named.

    Raises:
        StoreError: there is no store, or it can only be read.
        NotFoundError: it has no such project, experiment or run.
    """
    from rolltrace.query import open_store

    store = open_store(store_of(options, to_write=to_write))
    named = {"project": "project", "experiment": "experiment", "run": "only_run"}
    store.check_names(**{name: getattr(options, option, None) for name, option in named.items()})
    return store


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that answers the question ahead; `is_agreed` reads it."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation; required without a terminal")


def amount(foreseen: Foreseen) -> str:
    """`12 trajectories (3 whole groups, about 4.2 MB)`."""
    groups = counted(foreseen.groups, "whole group")
    return f"{counted(foreseen.trajectories, 'trajectory')} ({groups}, about {size(foreseen.bytes)})"


def is_agreed(options: argparse.Namespace, what: str) -> bool:
    """Whether to go on: `--yes`, or what a person answers.

    Raises:
        ConfigError: there is no `--yes` and nobody to ask.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(f"this would {what}, and there is no terminal to ask on: add --yes, or --dry-run to preview")
    print(f"This will {what}. It cannot be undone. Continue? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("rolltrace: nothing was removed", file=sys.stderr)
    return False
