"""`rolltrace label`: mark trajectories and turns, write notes, give rewards by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rolltrace._amounts import ago, counted
from rolltrace.cli.command import StoreWord, argument, command, option, section
from rolltrace.cli.options import (
    COORDINATES,
    IS_ID,
    JSON,
    STORE_OPTION,
    Options,
)  # fmt: skip
from rolltrace.cli.output import SHORT_ID, Column, field_text, plain, print_rows, print_table, working
from rolltrace.files import is_store

if TYPE_CHECKING:
    from rolltrace.query import Row, Store

_EXAMPLES = """examples:
  rolltrace label 3f2a1b2c hack --author me --note "prints the expected output"
  rolltrace label 3f2a1b2c style=terse --turn 2    of the third model call
  rolltrace label --step 12 --sample 3 --rollout 0 good
  rolltrace label 3f2a1b2c hack --remove           take it back
  rolltrace label 3f2a1b2c --score reward=0 --reason "the judge was fooled"
  rolltrace label 3f2a1b2c --score fate=filtered --trained-step 12
  rolltrace label 3f2a1b2c                         what people say of it
  rolltrace label                                  all that people marked
  rolltrace export sft --where label.good

What an author says last counts; what others say stays, and so does the history.
Of a score the newest value counts, whoever gave it."""


def _find_store(words: Sequence[str]) -> int | None:
    """A label may be the name of some folder: a store is one, or is written as a path."""
    return -1 if "/" in words[-1].partition("=")[0] or is_store(Path(words[-1])) else None


@command(
    "give labels, notes, rewards and other scores",
    "Give a trajectory, or one of its turns, labels and a note, with author and time, or scores. Without any, list the "
    "labels that there are. Every reader of the store sees them at once. Filters ask for label.NAME and author.NAME.",
    argument("words", "the id of a trajectory or a prefix of it, then NAME or NAME=VALUE", "[ID] [LABEL]...", nargs=-1),
    option("--note TEXT", "write a note; it takes the place of the author's earlier one"),
    option("--author NAME", "who says so (default: your login name)"),
    option("--reason TEXT", "why"),
    option("--turn N", "only this model call, counted from 0"),
    option("--remove", "take these labels back; LABEL note is the note"),
    section(
        "scores",
        option("--score NAME=VALUE", "a reward, advantage, fate or any other, a number or text", multiple=True),
        option("--trained-step N", "of a fate: the step that trained on it"),
        option("--text", "the value of --score is text even if it looks like a number"),
    ),
    COORDINATES,
    STORE_OPTION,
    StoreWord("words", _find_store),
    JSON,
    epilog=_EXAMPLES,
)  # fmt: skip
def label(options: Options) -> int:
    words: list[str] = options.words
    by_coordinates = any(getattr(options, name) is not None for name in ("step", "sample", "rollout"))
    target = None if by_coordinates or not words else words.pop(0)
    if target is not None and IS_ID.fullmatch(target.lower()) is None:
        options.usage_error(
            f"{plain(target)} is not an id; name a trajectory first, or give --step, --sample and --rollout"
        )
    marks, scores = _marks(words, options), _scores(options)
    if (marks or scores) and target is None and not by_coordinates:
        options.usage_error("name the trajectory: an id, or --step, --sample and --rollout")
    store = options.open_store(to_write=bool(marks or scores))
    if not marks and not scores:
        return _list(store, None if target is None else store.full_id(target), options)
    about = target or (options.step, options.sample, options.rollout, bool(options.validate))
    place = {"project": options.project, "experiment": options.experiment, "run": options.only_run}
    with working(f"reading {store.path}"):
        for name, value in marks:
            store.label(about, name, value, author=options.author, turn=options.turn, reason=options.reason, **place)
        for name, score in scores:
            store.score(about, name, score, reason=options.reason, trained_step=options.trained_step, **place)
    shown = target or f"step {options.step}, sample {options.sample}, rollout {options.rollout}"
    for name, value in marks:
        print(f"{plain(shown)}: {plain(name)} {'is taken back' if value is None else f'is {plain(value)}'}")
    for name, score in scores:
        print(f"{plain(shown)}: {plain(name)} is {plain(score)}")
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


def _scores(options: Options) -> list[tuple[str, float | str]]:
    """The scores to give, each a number if it reads like one."""
    pairs = [word.partition("=") for word in options.score]
    if not all(equals for _, equals, _ in pairs):
        options.usage_error("--score takes NAME=VALUE, such as reward=0.5")
    return [(name, value if options.text else _read_value(value)) for name, _, value in pairs]


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


def _read_value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
