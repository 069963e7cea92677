"""Arguments that several commands have, and what commands do because of them.

Which store is meant, which trajectories, what pass means, whether to remove something for good.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rolltrace._address import is_address
from rolltrace._amounts import counted, size
from rolltrace.cli.command import PATH, Declaration, StoreWord, argument, one_of, option, section
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
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NOT_PLAIN = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG, errno.ENXIO})
"""A file of a store that is a folder, a link, a pipe, or far too large."""


def read_count(value: Any) -> int:
    """Read an option that counts something."""
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"must be a whole number, 0 or more; not {text!r}")
    return int(text)


JSON = option("--json", "print JSON lines")
YES = option("--yes", "do not ask for confirmation; required without a terminal")
PROJECT, EXPERIMENT = option("--project NAME"), option("--experiment NAME")
STEP = option("--step N", "training step")
SAMPLE = option("--sample S", "sample index, a number or a text")
ROLLOUT = option("--rollout N", "which rollout of the sample")
VALIDATE = option("--validate/--train", "validation only, or training only", default=None)
RUN = option("--run ID", "this run only", dest="only_run")
WHERE = option("--where FILTER", "such as \"reward < 0.5 and tool = 'search'\"")
_PASS_TITLE = "what pass means (default: what is stored with the experiment, else reward > 0)"
RULE = section(
    _PASS_TITLE,
    option("--term NAME", "this reward term is at least --threshold, or 1"),
    option("--threshold X", "the reward, or --term, is at least X"),
)
PASS = [
    *RULE,
    *section(_PASS_TITLE, option("--save", "store this with the experiment, for all commands and the viewer")),
]


def filters(experiment: Declaration = EXPERIMENT) -> Declaration:
    """Options that say which trajectories are meant; `Options.filters` reads them."""
    all_runs = option("--all-runs", "older attempts at a step too, not only the newest run")
    places = (PROJECT, experiment, STEP, SAMPLE, ROLLOUT, VALIDATE)
    return section("which trajectories", *places, one_of(RUN, all_runs), WHERE)


FILTERS = filters()
COORDINATES = section("instead of an id", PROJECT, EXPERIMENT, STEP, SAMPLE, ROLLOUT, VALIDATE, RUN)
"""Options that say which trajectory is meant; `Options.coordinates` reads them."""


def order(example: str) -> Declaration:
    """The option that sorts a table."""
    return option("--order NAMES", f"sort by these, such as {example} (prefix - for descending order)")


STORE_OPTION = option("--store STORE", _DEFAULT_STORE, dest="store_option")
STORE = [
    *argument("store", _DEFAULT_STORE, required=False, type=PATH),
    *option("--store STORE", "the same, as an option", dest="store_option"),
]
"""The store as the last argument, or as `--store`."""


def _find_no_id(words: Sequence[str]) -> int | None:
    return next((at for at in reversed(range(len(words))) if IS_ID.fullmatch(words[at].lower()) is None), None)


STORE_AFTER_IDS = StoreWord("ids", _find_no_id)
IDS = argument("ids", "ids of trajectories, or prefixes of them; the store may follow", "ID", nargs=-1)


class Options(SimpleNamespace):
    """The options of a command by their names; what may be given several times is a list."""

    json: bool

    def __init__(self, context: click.Context, store_word: StoreWord | None = None) -> None:
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in context.params.items()}
        super().__init__(**values)
        self.context = context
        self.command = context.info_name or ""
        self.is_about_store = "store_option" in values
        option: Any = values.get("store_option")
        word: Any = values.get("store")
        words: Any = values.get(store_word.dest) if store_word is not None else None
        if store_word is not None and words and option is None and (at := store_word.find(words)) is not None:
            word = words.pop(at)
        if None not in (word, option) and word != option:
            raise ConfigError(f"two stores were given, {word!r} and --store {option!r}; give only one")
        self.store: str | None = word if option is None else option

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
    def coordinates(self) -> dict[str, Any]:
        """Those of `COORDINATES` that were given, as arguments of `Store.trajectories`."""
        given = {
            "step": self.step,
            "sample_index": self.sample,
            "rollout_n": self.rollout,
            "validate": self.validate,
            "project": self.project,
            "experiment": self.experiment,
            "run": self.only_run,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def rule(self) -> dict[str, Any]:
        """What `PASS` was given, as arguments of `Store.groups`."""
        given = {"term": self.term, "threshold": self.threshold}
        return {name: value for name, value in given.items() if value is not None}

    def usage_error(self, text: str) -> NoReturn:
        raise click.UsageError(text, self.context)

    def named_store(self) -> Path | None:
        """The store that a command is about, whether there is one or not; None for a command without."""
        text = _named(self.store)
        return (
            None if is_address(text) or not self.is_about_store else Settings.gather({"store": text}).store.expanduser()
        )

    def store_path(self, **how: bool) -> Path:
        """The store that a command was asked about, as `find_store` finds it."""
        return find_store(self.store, **how)

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

    def check_ids(self) -> None:
        """Refuse words that are no ids."""
        for word in self.ids:
            if IS_ID.fullmatch(word.lower()) is None:
                self.usage_error(f"{plain(word)} is not an id; a store is named last, or as --store {plain(word)}")

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


def find_store(
    text: str | None, *, may_be_new: bool = False, may_be_empty: bool = False, to_write: bool = False
) -> Path:
    """Return the store that was named, or the default one.

    Args:
        text: What was typed.
        may_be_new: The command can make a store, where there is nothing or an empty folder.
        may_be_empty: The command shows an empty folder as an empty store: a run may be about to begin.
        to_write: The command changes it.

    Raises:
        StoreError: there is no store, and the command does not make one there; or it can only be read.
    """
    store = Settings.gather({"store": _named(text)}).store.expanduser()
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


def _named(text: str | None) -> str | None:
    """The store that was named, as an argument or in the environment."""
    return text or os.environ.get(variable_of("store")) or None


def explain_refusal(error: OSError, store: Path | None) -> str | None:
    """What to say of something that this user may not do, or of a file that is none; None for any other error."""
    if error.errno in _NOT_PLAIN and store is not None and Path(str(error.filename)).is_relative_to(store):
        return (
            f"{str(error.filename)!r} cannot be used: {error.strerror}; see: rolltrace doctor {shlex.quote(str(store))}"
        )
    if error.errno not in _NOT_ALLOWED:
        return None
    why = None if store is None else write_problem(store)
    what = f"{error.strerror}: {str(error.filename)!r}" if error.filename is not None else str(error)
    return what if why is None else f"{what}; the store {str(store)!r} can only be read: {why}"


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
