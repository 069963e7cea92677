"""Rows of the store as answers: what JSON or JavaScript cannot hold, or is too long for a page, is changed here."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, TypeVar

import msgspec

from rolltrace.pass_rule import PassMeaning
from rolltrace.query.model.lists import TrajectoryRow
from rolltrace.query.model.store import Passing
from rolltrace.query.values import bounded

T = TypeVar("T")
Row = dict[str, Any]
MAX_NAME_CHARS = 200
"""Of a name that a program may have made of anything: of an op, a tool, a role."""
_AS_TEXT = frozenset({"op_id", "parent_id", "parent_op_id", "sample_index"})
"""Numbers of more than 53 bits, or a number or a text."""


def typed(kind: type[T], value: Any) -> T:
    """Rows, dicts, dataclasses and named tuples as an answer of this type. What the type does not have is left out."""
    return msgspec.convert(_plain(value), kind)


def number(value: float | None) -> Any:
    """A number as JSON can hold it."""
    return value if value is None or math.isfinite(value) else str(value)


def short_name(name: str) -> str:
    """A name, or the beginning of a long one."""
    return name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…"


def listing_row(row: Row) -> TrajectoryRow:
    """A row of the listing; its tags may still be JSON text."""
    tags = json.loads(row["tags"]) if isinstance(row["tags"], str) else row["tags"]
    shown = typed(TrajectoryRow, {**row, "tags": {}})
    shown.tags = {key: bounded(value) for key, value in tags.items()} if isinstance(tags, dict) else {}
    return shown


def passing(meaning: PassMeaning) -> Passing:
    """What pass means in an experiment."""
    rule = {"term": meaning.rule.term, "threshold": meaning.rule.threshold}
    return typed(Passing, {**meaning._asdict(), **rule, "title": meaning.title, "text": meaning.text})


def _plain(value: Any, name: str = "") -> Any:
    if value is None or isinstance(value, str | bool | msgspec.Struct | msgspec.Raw):
        return value
    if isinstance(value, int):
        return str(value) if name in _AS_TEXT else value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {key: _plain(item, key) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(item, key) for key, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"cannot be an answer: {type(value).__name__}")
