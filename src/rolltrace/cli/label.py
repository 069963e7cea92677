"""`rolltrace label` and `score`: mark trajectories and turns, write notes, give rewards by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rolltrace._amounts import ago, counted
from rolltrace.cli.command import argument, command, group, option
from rolltrace.cli.options import (
    EXPERIMENT,
    IS_ID,
    JSON,
    PROJECT,
    ROLLOUT,
    SAMPLE,
    STEP,
    STORE,
    Options,
    store_after,
)  # fmt: skip
from rolltrace.cli.output import SHORT_ID, Column, field_text, plain, print_rows, print_table, working
from rolltrace.files import is_store

if TYPE_CHECKING:
    from rolltrace.query import Row, Store

_LABEL_EXAMPLES = """examples:
  rolltrace label 3f2a1b2c hack --author me --note "prints the expected output"
  rolltrace label 3f2a1b2c style=terse --turn 2    of the third model call
  rolltrace label --step 12 --sample 3 --rollout 0 good
  rolltrace label 3f2a1b2c hack --remove           take it back
  rolltrace label 3f2a1b2c                         what people say of it
  rolltrace label                                  all that people marked
  rolltrace export sft --where label.good

What an author says last counts; what others say stays, and so does the history."""
_SCORE_EXAMPLES = """examples:
  rolltrace score 3f2a1b2c note "guesses the answer, then explains it"
  rolltrace score 3f2a1b2c reward 0 --reason "the judge was fooled"
  rolltrace score 3f2a1b2c fate filtered --reason "too long" --store runs/store
  rolltrace ls --where "label.note ~ 'guesses'"

The newest value of a name counts; rolltrace show has the history."""


def _ends_in_store(words: Sequence[str]) -> bool:
    """A label may be the name of some folder: a store is one, or is written as a path."""
    return "/" in words[-1].partition("=")[0] or is_store(Path(words[-1]))


@command(
    "mark trajectories and turns, write notes",
    "Give a trajectory, or one of its turns, labels and a note, with author and time. Without any, list those that "
    "there are. Filters ask for label.NAME and author.NAME.",
    argument(
        "words", nargs="*", metavar="ID LABEL", help="the id of a trajectory or a prefix of it, then NAME or NAME=VALUE"
    ),
    option("--note TEXT", "write a note; it takes the place of the author's earlier one"),
    option("--author NAME", "who says so (default: your login name)"),
    option("--reason TEXT", "why"),
    option("--turn N", "only this model call, counted from 0"),
    option("--remove", "take these labels back; LABEL note is the note"),
    group(
        "instead of an id", STEP, SAMPLE, ROLLOUT, option("--validate", "the validation rollout"),
        PROJECT, EXPERIMENT, option("--run ID", "this run, not the newest", dest="only_run"),
    ),
    store_after("words", _ends_in_store),
    JSON,
    epilog=_LABEL_EXAMPLES,
)  # fmt: skip
def label(options: Options) -> int:
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
    store = options.open_store(to_write=bool(marks))
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


def _marks(words: Sequence[str], options: Options) -> list[tuple[str, str | None]]:
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


def _list(store: Store, trajectory_id: str | None, options: Options) -> int:
    with working(f"reading {store.path}"):
        rows = store.labels(experiment=options.experiment, project=options.project, step=options.step).rows()
    wanted = {"trajectory_id": trajectory_id, "author": options.author}
    rows = [row for row in rows if all(value in (None, row[name]) for name, value in wanted.items())]
    if options.json:
        print_rows(rows)
    elif not rows:
        print(f"no labels in {plain(store.path)}; give one with: rolltrace label ID NAME")
    else:
        print_table(_columns(rows))
        print(counted(len(rows), "label"))
    return 0


def _columns(rows: Sequence[Row]) -> list[Column]:
    cells = {
        "id": [row["trajectory_id"][:SHORT_ID] for row in rows],
        "step": [field_text(row["step"]) for row in rows],
        "sample": [field_text(row["sample_index"]) for row in rows],
        "n": [field_text(row["rollout_n"]) for row in rows],
        "op": [field_text(row["op_id"]) for row in rows],
        "label": [row["name"] for row in rows],
        "value": ["" if row["value"] == "yes" else field_text(row["value"]) for row in rows],
        "author": [field_text(row["author"]) for row in rows],
        "when": [ago(row["time_ns"]) for row in rows],
    }
    return [
        Column(title, column, right=title in ("step", "n"), stretch=title == "value")
        for title, column in cells.items()
        if title not in ("op", "value") or any(column)
    ]


@command(
    "give a trajectory a reward, a label or a note",
    "Give a trajectory a score, a label or a note. Every reader of the store sees it at once.",
    argument("id", metavar="ID", help="the id of the trajectory, or a prefix of it"),
    argument("name", metavar="NAME", help="reward, advantage, fate, note, or any other"),
    argument("value", metavar="VALUE", help="a number, or text"),
    option("--reason TEXT", "why"),
    option("--trained-step N", "of a fate: the step that trained on it"),
    option("--text", "VALUE is text even if it looks like a number"),
    STORE,
    epilog=_SCORE_EXAMPLES,
)
def score(options: Options) -> int:
    value = options.value if options.text else _read_value(options.value)
    store = options.open_store(to_write=True)
    with working(f"reading {store.path}"):
        store.score(options.id, options.name, value, reason=options.reason, trained_step=options.trained_step)
    print(f"{plain(options.id)}: {plain(options.name)} is {plain(value)}")
    return 0


def _read_value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
