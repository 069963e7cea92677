"""`rolltrace label`: mark trajectories and turns, write notes, and list what people marked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import ago, counted
from rolltrace.cli.options import IS_ID, add_json, add_store, open_asked, store_after
from rolltrace.cli.output import SHORT_ID, Column, json_line, plain, print_table, working
from rolltrace.files import is_store

if TYPE_CHECKING:
    from rolltrace.query import Row, Store

_EXAMPLES = """examples:
  rolltrace label 3f2a1b2c hack --author me --note "prints the expected output"
  rolltrace label 3f2a1b2c style=terse --turn 2    of the third model call
  rolltrace label --step 12 --sample 3 --rollout 0 good
  rolltrace label 3f2a1b2c hack --remove           take it back
  rolltrace label 3f2a1b2c                         what people say of it
  rolltrace label                                  all that people marked
  rolltrace export sft --where label.good

What an author says last counts; what others say stays, and so does the history."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "label",
        help="mark trajectories and turns, write notes",
        description="Give a trajectory, or one of its turns, labels and a note, with author and time. Without any, "
        "list those that there are. Filters ask for label.NAME and author.NAME.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "words", nargs="*", metavar="ID LABEL", help="the id of a trajectory or a prefix of it, then NAME or NAME=VALUE"
    )
    parser.add_argument("--note", metavar="TEXT", help="write a note; it takes the place of the author's earlier one")
    parser.add_argument("--author", metavar="NAME", help="who says so (default: your login name)")
    parser.add_argument("--reason", metavar="TEXT", help="why")
    parser.add_argument("--turn", type=int, metavar="N", help="only this model call, counted from 0")
    parser.add_argument("--remove", action="store_true", help="take these labels back; LABEL note is the note")
    group = parser.add_argument_group("instead of an id")
    group.add_argument("--step", type=int, metavar="N", help="training step")
    group.add_argument("--sample", metavar="S", help="sample index, a number or a text")
    group.add_argument("--rollout", type=int, metavar="N", help="which rollout of the sample")
    group.add_argument("--validate", action="store_true", help="the validation rollout")
    group.add_argument("--project", metavar="NAME")
    group.add_argument("--experiment", metavar="NAME")
    group.add_argument("--run", dest="only_run", metavar="ID", help="this run, not the newest")
    add_store(parser, last=False)
    store_after(parser, "words", _ends_in_store)
    add_json(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    words: list[str] = options.words
    by_coordinates = any(getattr(options, name) is not None for name in ("step", "sample", "rollout"))
    target = None if by_coordinates or not words else words.pop(0)
    if target is not None and IS_ID.fullmatch(target.lower()) is None:
        options.usage_error(
            f"{plain(target)} is not an id; name a trajectory first, or give --step, --sample and --rollout"
        )
    marks = _marks(words, options)
    if marks and target is None and not by_coordinates:
        options.usage_error("name the trajectory: an id, or --step, --sample and --rollout")
    store = open_asked(options, to_write=bool(marks))
    if not marks:
        return _list(store, None if target is None else store.full_id(target), options)
    about = target or (options.step, options.sample, options.rollout, options.validate)
    with working(f"reading {store.path}"):
        for name, value in marks:
            store.label(
                about, name, value, author=options.author, turn=options.turn, reason=options.reason,
                project=options.project, experiment=options.experiment, run=options.only_run,
            )  # fmt: skip
    shown = target or f"step {options.step}, sample {options.sample}, rollout {options.rollout}"
    for name, value in marks:
        print(f"{plain(shown)}: {plain(name)} {'is taken back' if value is None else f'is {plain(value)}'}")
    return 0


def _marks(words: Sequence[str], options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """The labels to give, or to take back."""
    if options.remove:
        if options.note is not None:
            options.usage_error("--remove takes labels back; for a note: rolltrace label ID note --remove")
        if not words:
            options.usage_error("--remove needs the labels to take back")
        return [(word.partition("=")[0], None) for word in words]
    pairs = [word.partition("=") for word in words]
    marks: list[tuple[str, str | None]] = [(name, value if equals else "yes") for name, equals, value in pairs]
    return marks if options.note is None else [*marks, ("note", options.note)]


def _ends_in_store(words: Sequence[str]) -> bool:
    """A label may be the name of some folder: a store is one, or is written as a path."""
    return "/" in words[-1].partition("=")[0] or is_store(Path(words[-1]))


def _list(store: Store, trajectory_id: str | None, options: argparse.Namespace) -> int:
    with working(f"reading {store.path}"):
        rows = store.labels(experiment=options.experiment, project=options.project, step=options.step).rows()
    if trajectory_id is not None:
        rows = [row for row in rows if row["trajectory_id"] == trajectory_id]
    if options.author is not None:
        rows = [row for row in rows if row["author"] == options.author]
    if options.json:
        for row in rows:
            print(json_line(row))
        return 0
    if not rows:
        print(f"no labels in {plain(store.path)}; give one with: rolltrace label ID NAME")
        return 0
    print_table(_columns(rows))
    print(counted(len(rows), "label"))
    return 0


def _columns(rows: Sequence[Row]) -> list[Column]:
    cells = {
        "id": [row["trajectory_id"][:SHORT_ID] for row in rows],
        "step": ["" if row["step"] is None else str(row["step"]) for row in rows],
        "sample": ["" if row["sample_index"] is None else plain(row["sample_index"]) for row in rows],
        "n": ["" if row["rollout_n"] is None else str(row["rollout_n"]) for row in rows],
        "op": ["" if row["op_id"] is None else str(row["op_id"]) for row in rows],
        "label": [plain(row["name"]) for row in rows],
        "value": ["" if row["value"] == "yes" else plain(row["value"]) for row in rows],
        "author": [plain(row["author"]) for row in rows],
        "when": [ago(row["time_ns"]) for row in rows],
    }
    return [
        Column(title, column, right=title in ("step", "n"), stretch=title == "value")
        for title, column in cells.items()
        if title not in ("op", "value") or any(column)
    ]
