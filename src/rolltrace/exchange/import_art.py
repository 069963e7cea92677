"""Reads the trajectories that OpenPipe ART logs: `trajectories/SPLIT/STEP.parquet`, one row each.

The step is the file's name, the split its folder: all but `train` are validation rollouts. Rows with the same
`group_index` are the rollouts of one sample. `messages` are those of the conversation; what the model was trained on
is `trainable`. There are no tokens. `metrics` are terms of the reward as far as they are numbers, `metadata` becomes
tags.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    is_number,
    listed,
    score_row,
    trajectory_row,
    whole,
    without_nothing,
)
from rolltrace.exchange.import_turns import Turns, add_message
from rolltrace.exchange.importer import Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import parquet_rows
from rolltrace.exchange.text import parse


def files(folder: Path) -> list[Path]:
    """The steps of all splits below a folder."""
    steps = [each for each in folder.rglob("*.parquet") if each.stem.isdecimal()]
    return sorted(steps, key=lambda each: (each.parent, len(each.stem), each.stem))


def reader(source: Source) -> LineReader:
    """A reader of the trajectories of one step."""
    source.target.named()
    source.split = parquet_rows
    stem, split = source.path.stem, source.path.parent.name
    step = int(stem) if stem.isdecimal() and len(stem) < 19 else None
    is_split = source.path.parent.parent.name == "trajectories"
    validate = source.target.validate or (is_split and split != "train")
    source.told_by_path(step, split if is_split else None)
    samples = Samples()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        missing = ", ".join(sorted({"messages", "reward"} - record.keys()))
        if missing:
            raise Malformed(f"the file has no column {missing}")
        group, reward = whole(record.get("group_index"), "group_index"), record["reward"]
        if reward is not None and not is_number(reward):
            raise Malformed(f"reward must be a number, not {reward!r:.60}")
        where: dict[str, Any] = samples.of(line.number if group is None else ("group", group), line.number - 1)
        if group is not None:
            where["sample_index"] = group
        place = place_of(source, line, step=step, validate=validate, **where)
        turns = Turns(place, line.time_ns)
        for message in listed(record, "messages"):
            own = _message(message)
            # What the model said is trainable; other answers were there before, such as examples.
            add_message(turns, own, said_before=own.get("role") == "assistant" and message.get("trainable") is False)
        metrics, metadata = _object(record, "metrics"), _object(record, "metadata")
        tags = {**metadata, **{name: record.get(name) for name in ("logs", "tools", "group_metadata")}}
        ops, end = turns.finished(), turns.end_ns + 1
        rows = [trajectory_row(place, "art", line.time_ns, end, without_nothing({**tags, "split": split})), *ops]
        terms = {name: float(value) for name, value in metrics.items() if is_number(value)}
        if reward is not None or terms:
            rows.append(score_row(place, reward, terms, end))
        return rows

    return read


def _message(message: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in without_nothing(message).items() if name != "trainable"}
    if isinstance(own.get("tool_calls"), str):
        own["tool_calls"] = _parsed(own["tool_calls"])
    return own


def _object(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A column that holds JSON, or an object."""
    value = record.get(name)
    value = _parsed(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return text
