"""Reads JSON lines of conversations, such as `rolltrace export sft` writes.

A line has `messages` and, where known, `reward`, `step`, `sample_index`, `rollout_n`, `validate`, `trajectory_id`,
`name`, `project`, `experiment`, `run`. All other fields become tags.
"""

from __future__ import annotations

import re
from typing import Any

from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_checks import ImportChecks
from rolltrace.exchange.import_rows import (
    ImportedPlace,
    ImportedRow,
    Malformed,
    conversation_rows,
    is_number,
    run_id,
    sample,
    score_row,
    trajectory_row,
    whole,
)
from rolltrace.exchange.importer import Line, LineReader, Source

_ID = re.compile(r"[0-9a-f]{32}")
_KNOWN = frozenset({"messages", "reward", "name", *ImportedPlace._fields}) - {"worker"}


def recognise(peek: Peek) -> str | None:
    """By its messages."""
    messages = peek.record.get("messages")
    is_chat = isinstance(messages, list) and bool(messages) and isinstance(messages[0], dict) and "role" in messages[0]
    return "its first record has messages" if is_chat else None


def reader(source: Source) -> LineReader:
    """A reader of conversations."""
    checks = ImportChecks()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        messages, reward = record.get("messages"), record.get("reward")
        if not isinstance(messages, list) or not messages:
            raise Malformed("messages must be a non-empty list")
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise Malformed(f"a message is an object with a role, not {message!r:.60}")
        if reward is not None and not is_number(reward):
            raise Malformed(f"reward must be a number, not {reward!r:.60}")
        place, at = _place(record, line, source), line.time_ns
        tags = {name: value for name, value in record.items() if name not in _KNOWN}
        name = record.get("name") or "chat"
        rows = [trajectory_row(place, name, at, at + len(messages) + 1, tags)]
        rows += conversation_rows(place, messages, at)
        if reward is not None:
            rows.append(score_row(place, reward, {}, at + len(messages)))
        return checks.flagged(place, rows)

    return read


def _place(record: dict[str, Any], line: Line, source: Source) -> ImportedPlace:
    target = source.target
    project, experiment = target.project or record.get("project"), target.experiment or record.get("experiment")
    if not isinstance(project, str) or not isinstance(experiment, str) or not project or not experiment:
        raise Malformed("the line names no project and experiment; pass --project and --experiment")
    validate = record.get("validate") or False
    if not isinstance(validate, bool):
        raise Malformed(f"validate must be true or false, not {validate!r:.60}")
    own, moved = record.get("trajectory_id"), (project, experiment) != (record.get("project"), record.get("experiment"))
    keeps_id = isinstance(own, str) and _ID.fullmatch(own) is not None and not moved
    return ImportedPlace(
        str(own) if keeps_id else source.trajectory_id(line),
        project,
        experiment,
        whole(record.get("step"), "step"),
        sample(record.get("sample_index")),
        whole(record.get("rollout_n"), "rollout_n"),
        validate or target.validate,
        run=run_id(record.get("run")),
    )
