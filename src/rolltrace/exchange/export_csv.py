"""CSV: one line per trajectory, with the columns of `trajectories`, and one for each score, term of the reward and tag.

No payloads: those are in `export jsonl` and `export parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rolltrace.exchange.selection import Exported, Selection
from rolltrace.exchange.text import write_csv
from rolltrace.query import TRAJECTORY_COLUMNS

_OWN_COLUMN = ("reward", "advantage", "fate")
"""Scores that are columns of `trajectories`."""

_NEWEST = """
SELECT trajectory_id, name, value, label, terms FROM latest_scores
WHERE author IS NULL OR label IS NOT NULL ORDER BY time_ns
"""
"""Of the labels, those that nobody took back."""


def write(selection: Selection, out: TextIO) -> Exported:
    """Write a line of names, and a line per trajectory."""
    columns = [name for name in TRAJECTORY_COLUMNS if name != "tags"]
    extra = _scores(selection)
    for row in selection.rows:
        tags = {f"tag.{name}": value for name, value in row["tags"].items()}
        extra.setdefault(row["trajectory_id"], {}).update(tags)
    more = sorted({name for fields in extra.values() for name in fields})

    def cells(row: Mapping[str, Any]) -> Iterator[Any]:
        for name in columns:
            yield ", ".join(row[name] or ()) if name in ("flags", "labels") else row[name]
        own = extra[row["trajectory_id"]]
        yield from (own.get(name) for name in more)

    return Exported(write_csv(out, [*columns, *more], (list(cells(row)) for row in selection.rows)))


def _scores(selection: Selection) -> dict[str, dict[str, Any]]:
    """By trajectory: its scores and labels, and the terms of its reward."""
    scores: dict[str, dict[str, Any]] = {}
    wanted = {row["trajectory_id"] for row in selection.rows}
    for score in selection.store.sql(_NEWEST):
        if score["trajectory_id"] not in wanted:
            continue
        fields = scores.setdefault(score["trajectory_id"], {})
        if score["name"] not in _OWN_COLUMN:
            fields[f"score.{score['name']}"] = score["label"] if score["value"] is None else score["value"]
        if score["name"] == "reward":
            fields.update({f"term.{name}": value for name, value in json.loads(score["terms"] or "{}").items()})
    return scores
