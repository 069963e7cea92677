"""Arguments that several commands have, and what commands do because of them.

Which store is meant, which trajectories, what pass means, whether to remove something for good.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._address import is_address
from rolltrace._amounts import counted, size
from rolltrace.cli.command import Declaration, group, one_of, option
from rolltrace.cli.output import json_line, plain, warn
from rolltrace.errors import ConfigError, StoreError
from rolltrace.files import check_store, read_problem, write_problem
from rolltrace.settings import Settings, variable_of

if TYPE_CHECKING:
    from rolltrace.keeper import Foreseen
    from rolltrace.query import OlderRuns, Result, Store

IS_ID = re.compile(r"[0-9a-f]{4,32}")
"""Of a trajectory, or a prefix."""
_DEFAULT_STORE = "the store folder (default: ROLLTRACE_STORE, or ~/.rolltrace)"

JSON = option("--json", "print JSON lines")
YES = option("--yes", "do not ask for confirmation; required without a terminal")
PROJECT, EXPERIMENT = option("--project NAME"), option("--experiment NAME")
STEP = option("--step N", "training step")
SAMPLE = option("--sample S", "sample index, a number or a text")
ROLLOUT = option("--rollout N", "which rollout of the sample")
VALIDATE = one_of(
    option("--validate", "validation only", default=None),
    option("--train", "training only", dest="validate", action="store_false", default=None),
)
RUN = option("--run ID", "this run only", dest="only_run")
WHERE = option("--where FILTER", "such as \"reward < 0.5 and tool = 'search'\"")
PASS = group(
    "what pass means (default: what is stored with the experiment, else reward > 0)",
    option("--term NAME", "this reward term is at least --threshold, or 1"),
    option("--threshold X", "the reward, or --term, is at least X"),
    option("--save", "store this with the experiment, for all commands and the viewer"),
)


def filters(experiment: Declaration = EXPERIMENT) -> Declaration:
    """Options that say which trajectories are meant; `Options.filters` reads them."""
    all_runs = option("--all-runs", "older attempts at a step too, not only the newest run")
    runs = one_of(RUN, all_runs)
    return group("which trajectories", PROJECT, experiment, STEP, SAMPLE, ROLLOUT, VALIDATE, runs, WHERE)


FILTERS = filters()


def order(example: str) -> Declaration:
    """The option that sorts a table."""
    return option("--order NAMES", f"sort by these, such as {example} (prefix - for descending order)")


def STORE(parser: argparse._ActionsContainer) -> None:
    """The store as the last argument, or as `--store`."""
    parser.add_argument("store", nargs="?", metavar="STORE", help=_DEFAULT_STORE)
    parser.add_argument("--store", dest="store_option", metavar="STORE", help="the same, as an option")


def store_after(dest: str, is_store: Callable[[Sequence[str]], bool] | None = None) -> Declaration:
    """The store as `--store`, or as the last word of another argument, if `is_store` says so of its words."""

    def declare(parser: argparse._ActionsContainer) -> None:
        parser.set_defaults(store=None, store_after=(dest, is_store))
        parser.add_argument("--store", dest="store_option", metavar="STORE", help=_DEFAULT_STORE)

    return declare


def ends_in_no_id(words: Sequence[str]) -> bool:
    """Whether the last of these words cannot be the id of a trajectory, or a prefix of one."""
    return IS_ID.fullmatch(words[-1].lower()) is None


class Options(argparse.Namespace):
    """The options of a command."""

    store: Any

    @property
    def filters(self) -> dict[str, Any]:
        """The options of `FILTERS` as arguments of `Store.trajectories`."""
        return {
            "project": self.project,
            "experiment": self.experiment,
            "step": self.step,
            "sample_index": self.sample,
            "rollout_n": self.rollout,
            "validate": self.validate,
            "where": self.where,
            **self.runs,
        }

    @property
    def runs(self) -> dict[str, Any]:
        """Which runs were asked for, as arguments of `Store.trajectories`."""
        chosen: dict[str, Any] = {} if self.only_run is None else {"run": self.only_run}
        return {**chosen, "all_runs": True} if self.all_runs else chosen

    @property
    def rule(self) -> dict[str, Any]:
        """What `PASS` was given, as arguments of `Store.groups`."""
        given = {"term": self.term, "threshold": self.threshold}
        return {name: value for name, value in given.items() if value is not None}

    def find_store(self) -> None:
        """Take the store from the words that it stands behind, if it was not given elsewhere."""
        dest, is_store = getattr(self, "store_after", ("", None))
        if is_store is not None and self.store is None and self.store_option is None:
            words = getattr(self, dest)
            if words and is_store(words):
                setattr(self, dest, words[:-1])
                self.store = words[-1]

    def named_store(self) -> Path | None:
        """The store that a command is about, whether there is one or not; None for a command without."""
        if not hasattr(self, "store_option"):
            return None
        text = self._store_text()
        return None if is_address(text) else Settings.gather({"store": text}).store.expanduser()

    def _store_text(self) -> str | None:
        """The store that was named, as an argument or in the environment."""
        text = self.store if self.store_option is None else self.store_option
        return text or os.environ.get(variable_of("store")) or None

    def store_path(self, *, may_be_new: bool = False, may_be_empty: bool = False, to_write: bool = False) -> Path:
        """Return the store that a command was asked about.

        Args:
            may_be_new: The command can make a store, where there is nothing or an empty folder.
            may_be_empty: The command shows an empty folder as an empty store: a run may be about to begin.
            to_write: The command changes it.

        Raises:
            StoreError: there is no store, and the command does not make one there; or it can only be read.
        """
        if None not in (self.store, self.store_option) and self.store != self.store_option:
            raise ConfigError(f"two stores were given, {self.store!r} and --store {self.store_option!r}; give only one")
        store = Settings.gather({"store": self._store_text()}).store.expanduser()
        if store.is_dir() and not os.access(store, os.R_OK | os.X_OK):
            problem = read_problem(store, PermissionError("no permission"))
            raise StoreError(f"cannot read the store {str(store)!r}: {problem}")
        try:
            check_store(store, may_be_empty=may_be_empty)
        except StoreError as error:
            is_free = not store.exists() or (store.is_dir() and not any(store.iterdir()))
            if may_be_new and is_free:
                return store
            what = "name a new folder or a store" if may_be_new else "name one"
            raise StoreError(f"{error}; {what}: rolltrace COMMAND --store STORE") from None
        if to_write and (why := write_problem(store)) is not None:
            raise StoreError(f"the store {str(store)!r} can only be read: {why}")
        return store

    def open_store(self, *, to_write: bool = False, check_names: bool = True) -> Store:
        """Open the store that a command was asked about, which has the project, experiment and run that were named.

        Raises:
            StoreError: there is no store, or it can only be read.
            NotFoundError: it has no such project, experiment or run.
        """
        from rolltrace.query import open_store

        store = open_store(self.store_path(to_write=to_write))
        places = {"project": "project", "experiment": "experiment", "run": "only_run"}
        names = {name: value for name, dest in places.items() if (value := getattr(self, dest, None)) is not None}
        if names and check_names:
            store.check_names(**names)
        return store

    def report(self, fields: dict[str, Any], text: str) -> None:
        """Print what was done: as JSON if that was asked for, else as text."""
        print(json_line(fields) if self.json else text)

    def is_agreed(self, what: str) -> bool:
        """Whether to go on: `--yes`, or what a person answers.

        Raises:
            ConfigError: there is no `--yes` and nobody to ask.
        """
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise ConfigError(
                f"this would {what}, and there is no terminal to ask on: add --yes, or --dry-run to preview"
            )
        print(f"This will {what}. It cannot be undone. Continue? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        warn("nothing was removed")
        return False

    def tell_of_nothing(self, answer: Result) -> None:
        """Say that there is nothing, in which store, and what there is instead; on stderr where stdout is JSON."""
        if self.json:
            warn(plain(answer.why_empty()))
        else:
            print(plain(answer.why_empty()))


def tell_of_older_runs(older: OlderRuns) -> None:
    """Say what was left out because a newer run reached the same step."""
    if older.trajectories:
        warn(f"{older}; show them with --all-runs or --run ID (rolltrace ls --experiments lists the runs)")


def tell_of_runs_not_meant(store: Store, where: str | None, **conditions: Any) -> None:
    """Say how much of what a filter finds is left out because it is of older runs, where only the filter names runs."""
    if where is not None:
        older = store.trajectories(where=where, limit=0, **conditions).older_runs
        if older.trajectories:
            filter_text = shlex.quote(plain(f"superseded = true and ({where})"))
            left_out = counted(older.trajectories, "trajectory")
            warn(f"{left_out} of older runs left out; to include them: --where {filter_text}")


def amount(foreseen: Foreseen) -> str:
    """`12 trajectories (3 whole groups, about 4.2 MB)`."""
    groups = counted(foreseen.groups, "whole group")
    return f"{counted(foreseen.trajectories, 'trajectory')} ({groups}, about {size(foreseen.bytes)})"
