"""What every command shares: which store, which trajectories, how to print, how to show progress.

Traced text is never printed raw: it goes through `plain` (or `json_line`), in which nothing can move the cursor or
change a colour.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._amounts import ago as ago
from rolltrace._amounts import counted as counted
from rolltrace._amounts import duration as duration
from rolltrace._amounts import number as number
from rolltrace._amounts import size as size
from rolltrace.errors import ConfigError, StoreError
from rolltrace.journal import check_store, read_problem, write_problem
from rolltrace.record import to_json
from rolltrace.record.printable import plain_text, text_width
from rolltrace.settings import Settings

if TYPE_CHECKING:
    from rolltrace.query import Result, Store
    from rolltrace.query.runs import OlderRuns

SHORT_ID = 8
"""How many letters of an id are shown."""
_PIPED_WIDTH = 200
_NARROWEST = 12
_FEW_HOSTS = 4
_UNTOLD_SEC = 2.0
"""Work that takes longer says what it does."""
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS_COLOURS = {"error": "red", "interrupted": "red", "cancelled": "yellow", "running": "cyan"}


def add_store(parser: argparse.ArgumentParser, *, last: bool = True) -> None:
    """The store, the same in all commands: the last argument, or `--store`.

    Args:
        parser: Of the command.
        last: Whether argparse can tell the last argument from the others; if not, the command does.
    """
    default = "the store folder (default: ROLLTRACE_STORE, or ~/.rolltrace)"
    if last:
        parser.add_argument("store", nargs="?", metavar="STORE", help=default)
    parser.add_argument("--store", dest="store_option", metavar="STORE", help="the same" if last else default)


def add_all_hosts(parser: argparse.ArgumentParser) -> None:
    """The option of commands that change what several hosts may share."""
    parser.add_argument(
        "--all-hosts",
        action="store_true",
        help="also what other hosts brought; only while none of them works on the store",
    )


def tell_of_other_hosts(store: Path, options: argparse.Namespace) -> None:
    """Say that parts of other hosts are left alone, if there may be any."""
    from rolltrace.store import other_hosts

    hosts = other_hosts(store)
    if hosts and not options.all_hosts:
        names = ", ".join(plain(name) for name in hosts[:_FEW_HOSTS]) + (", ..." if len(hosts) > _FEW_HOSTS else "")
        print(
            f"rolltrace: only what this host brought; for the rest run it on {names}, or add --all-hosts while nothing "
            "runs there",
            file=sys.stderr,
        )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def add_order(parser: argparse.ArgumentParser, example: str) -> None:
    parser.add_argument(
        "--order", metavar="NAMES", help=f"sort by these, such as {example} (prefix - for descending order)"
    )


def count(text: str) -> int:
    """A number of rows, for argparse."""
    number_of_rows = int(text)
    if number_of_rows < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number_of_rows


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
                f"rolltrace: without {counted(older.trajectories, 'trajectory')} of older runs; for those: "
                f"--where {shlex.quote(plain(f'superseded = true and ({where})'))}",
                file=sys.stderr,
            )


def named_store(options: argparse.Namespace) -> Path | None:
    """The store that a command is about, whether there is one or not; None for a command without."""
    if not hasattr(options, "store_option"):
        return None
    named, last = options.store_option, getattr(options, "store", None)
    return Settings.gather({"store": last if named is None else named}).store.expanduser()


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
        raise ConfigError(f"two stores are named, {last!r} and --store {named!r}; leave one out")
    store = Settings.gather({"store": last if named is None else named}).store.expanduser()
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


def json_line(fields: dict[str, Any]) -> str:
    """The fields as one line. Readable text stays so; what a terminal could not print, or would obey, is escaped."""
    try:
        text = json.dumps(fields, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        fields = _with_plain_numbers(fields)
        text = json.dumps(fields, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(fields, default=str)


def _with_plain_numbers(value: Any) -> Any:
    """Numbers that JSON, or Python's writer of it, cannot hold as the store writes them: NaN, infinity, huge ones."""
    if isinstance(value, int | float):
        return to_json(value)
    if isinstance(value, dict):
        return {key: _with_plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_numbers(item) for item in value]
    return value


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(json_line(row))


def plain(value: Any) -> str:
    """A value as text that is safe to print, on one line. Lists and dicts are written as JSON."""
    try:
        if isinstance(value, dict | list | tuple | bool) or value is None:
            value = json.dumps(value, ensure_ascii=False, default=str)
        text = str(value)
    except ValueError:  # an integer that has no decimals in Python
        text = json.dumps(to_json(value), ensure_ascii=False)
    return plain_text(text.replace("\t", "    "))


def plain_lines(text: str) -> list[str]:
    """As `plain`, with its line ends kept: one text per line."""
    return [plain(line) for line in text.replace("\r\n", "\n").split("\n")]


def paint(text: str, colour: str | None) -> str:
    """The text in a colour, if stdout is a terminal and nobody asked for none (NO_COLOR, TERM=dumb)."""
    if colour is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def paint_status(status: str) -> str | None:
    """The colour of a trajectory or op that ended so."""
    return _STATUS_COLOURS.get(status.strip())


def cut(text: str, width: int) -> str:
    """The text in at most so many terminal columns."""
    if len(text) <= width // 2 or text_width(text) <= width:
        return text
    text = text[:width]
    while text and text_width(text) >= width:
        text = text[:-1]
    return text + "…"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many terminal columns; at least one line."""
    lines, line, taken = list[str](), "", 0
    for letter in text:
        needed = text_width(letter)
        if taken + needed > width:
            lines.append(line)
            line, taken = "", 0
        line, taken = line + letter, taken + needed
    return [*lines, line]


def screen_width() -> int:
    """How many columns a line may take."""
    return shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns


class Column(NamedTuple):
    """One column of `print_table`."""

    title: str
    cells: Sequence[str]
    right: bool = False
    """Numbers stand on the right."""
    colour: Callable[[str], str | None] = lambda cell: None
    stretch: bool = False
    """May be cut to fit the screen."""
    keep: bool = False
    """Is shown however narrow the screen is: somebody asked about it."""


def print_table(columns: Sequence[Column]) -> int:
    """Print the columns, made `plain` and fitted to the screen; returns how many were left out, the last ones first."""
    room = screen_width()
    columns = [column._replace(cells=[plain(cell) for cell in column.cells]) for column in columns]
    widths = [max(text_width(text) for text in (column.title, *column.cells)) for column in columns]
    for at in sorted(range(len(columns)), key=lambda at: -widths[at]):
        over = sum(widths) + 2 * (len(widths) - 1) - room
        if over > 0 and columns[at].stretch:
            widths[at] = min(widths[at], max(_NARROWEST, text_width(columns[at].title), widths[at] - over))
    shown = list(range(len(columns)))
    while sum(widths[at] for at in shown) + 2 * (len(shown) - 1) > room:
        optional = [at for at in shown[1:] if not columns[at].keep]
        if not optional:
            break
        shown.remove(optional[-1])
    for row in range(-1, max((len(column.cells) for column in columns), default=0)):
        texts = []
        for column, width in ((columns[at], widths[at]) for at in shown):
            text = cut(column.title if row < 0 else column.cells[row], width)
            gap = " " * (width - text_width(text))
            text = gap + text if column.right else text + gap
            texts.append(paint(text, "dim" if row < 0 else column.colour(text)))
        print("  ".join(texts).rstrip())
    return len(columns) - len(shown)


def print_footer(*facts: str) -> None:
    """Print what is to be said below a table, a line break between two facts where the screen ends."""
    line = ""
    for fact in filter(None, facts):
        longer = f"{line}; {fact}" if line else fact
        if line and text_width(longer) > screen_width():
            print(paint(f"{line};", "dim"))
            longer = fact
        line = longer
    print(paint(line, "dim"))


def differing_places(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Which of project, experiment and run the rows have several of; two experiments always have two runs."""
    places = ("project", "experiment", "run")
    counts = [len({tuple(row[name] for name in places[:depth]) for row in rows}) for depth in range(4)]
    return [name for name, fewer, more in zip(places, counts, counts[1:]) if more > fewer]


def error_text(error: Exception) -> str:
    """What to print of an error: with the place marked on a terminal, on one line everywhere else."""
    lines = plain_lines(str(error))
    if sys.stderr.isatty():
        return "\n".join(lines)
    return " | ".join(line.strip() for line in lines if line.strip(" ^"))


@contextmanager
def working(what: str) -> Iterator[None]:
    """While the block runs, from the second second on: one line on stderr that says what is done, if it is a terminal.

    It is gone when the block ends. For work whose length is known there is `progress`.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended, begun, room = threading.Event(), time.monotonic(), screen_width() - 1

    def tell() -> None:
        wait = _UNTOLD_SEC
        while not ended.wait(wait):
            line = cut(plain(f"{what}, {duration(time.monotonic() - begun)} so far (Ctrl-C stops)"), room)
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
            wait = 1.0

    teller = threading.Thread(target=tell, name="rolltrace-working", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if time.monotonic() - begun > _UNTOLD_SEC:
            print(f"\r{' ' * room}\r", end="", file=sys.stderr, flush=True)


def progress(what: str) -> Callable[[int, int], None]:
    """A function of (done, total) that draws a bar on stderr, if that is a terminal and it takes long enough."""
    begun = time.monotonic()
    shown = [False]

    def show(done: int, total: int) -> None:
        if not sys.stderr.isatty() or not total:
            return
        if done < total and time.monotonic() - begun < 0.5:
            return
        if done >= total and not shown[0]:
            return
        shown[0] = True
        filled = round(30 * done / total)
        line = f"\r{what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
        print(line, end="\n" if done >= total else "", file=sys.stderr, flush=True)

    return show
