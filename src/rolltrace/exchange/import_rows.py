"""Rows of the store's tables for an imported trajectory, checked, so that one bad line cannot spoil a whole part.

Numbers that a writer made text, as `json.dumps(..., default=str)` does with those of NumPy, torch and `decimal`, are
numbers again. Only what such a writer makes is undone: text that a person formatted ("85%", "1.0 / 2") stays, and is
flagged where a number should be.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeGuard

import xxhash

from rolltrace.record import (
    SPANS,
    ColumnType,
    SampleIndex,
    Table,
    clean_text,
    coordinate,
    sample_columns,
    to_json,
)

_DIGITS = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WRAPPED = re.compile(r"(?:tensor|np\.\w+|numpy\.\w+|Decimal)\(['\"]?([^,()'\"]+)['\"]?(?:,[^()]*)?\)")
"""How torch, NumPy and decimals write themselves: tensor(0.5000, device='cuda:0'), np.float32(0.5)."""
_BOOLS = {"True": True, "False": False}
_LONGEST_NUMBER = 60
_INT_BITS: dict[ColumnType, int] = {"int64": 63, "int32": 31}


class Malformed(ValueError):
    """A line that is not what its format says; the message tells why."""


class ImportedRow(NamedTuple):
    """One row, and the table it belongs to."""

    table: Table
    fields: dict[str, Any]


class ImportedPlace(NamedTuple):
    """Which trajectory, and where it stands."""

    trajectory_id: str
    project: str
    experiment: str
    step: int | None = None
    sample_index: SampleIndex | None = None
    rollout_n: int | None = None
    validate: bool = False
    worker: str = "import"
    run: str | None = None

    def columns(self) -> dict[str, Any]:
        """The columns that every row has."""
        return {**self._asdict(), **sample_columns(self.sample_index)}


def row(table: Table, place: ImportedPlace, values: Mapping[str, Any]) -> ImportedRow:
    """A row of a table: JSON columns are encoded, every type is checked. The importer takes secrets out.

    Raises:
        Malformed: a value that its column cannot hold.
    """
    fields = {**place.columns(), **values}
    if table is SPANS:
        fields["payload"] = {"inputs": fields.get("inputs"), "outputs": fields.get("outputs")}
    return fitting_row(table, fields)


def fitting_row(table: Table, fields: Mapping[str, Any]) -> ImportedRow:
    """A row of a table from all its columns.

    Raises:
        Malformed: a value that its column cannot hold.
    """
    return ImportedRow(
        table, {column.name: _fitting(column.name, column.type, fields.get(column.name)) for column in table.columns}
    )


def op_id(trajectory_id: str, number: int) -> int:
    """An id for the nth op of a trajectory, the same whenever it is imported."""
    return xxhash.xxh3_64_intdigest(f"{trajectory_id} {number}".encode()) >> 1


def whole(value: Any, name: str) -> int | None:
    """A coordinate that must be a whole number."""
    if value is None:
        return None
    number = coordinate(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(number, int):
        return number
    raise Malformed(f"{name} must be a whole number, not {shown(value)}")


def number(value: Any, name: str) -> float | None:
    """A reward, or another number, that may be missing."""
    if value is None or is_number(value):
        return value
    raise Malformed(f"{name} must be a number, not {shown(value)}")


def sample(value: Any) -> SampleIndex | None:
    """Which sample: a whole number or text."""
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return coordinate(value)
    raise Malformed(f"sample_index must be a whole number or text, not {shown(value)}")


def place_in(
    record: Mapping[str, Any], project: str | None, experiment: str | None, *, validate: bool
) -> ImportedPlace:
    """Where a record says that it stands, but for project and experiment that were asked for. It has no id yet.

    Raises:
        Malformed: a coordinate is not what it must be, or project and experiment are not known.
    """
    project, experiment = project or record.get("project"), experiment or record.get("experiment")
    if not isinstance(project, str) or not isinstance(experiment, str) or not project or not experiment:
        raise Malformed("it names no project and experiment; pass --project and --experiment")
    is_validation, run = record.get("validate") or False, record.get("run")
    if not isinstance(is_validation, bool):
        raise Malformed(f"validate must be true or false, not {shown(is_validation)}")
    if run is not None and not isinstance(run, str):
        raise Malformed(f"run must be text, not {shown(run)}")
    step, rollout_n = (whole(record.get(name), name) for name in ("step", "rollout_n"))
    where = (step, sample(record.get("sample_index")), rollout_n)
    return ImportedPlace("", project, experiment, *where, validate or is_validation, run=run)


def require(record: Mapping[str, Any], *columns: str) -> None:
    """Refuse a row of a table that lacks a column.

    Raises:
        Malformed: the message names all that are missing.
    """
    missing = ", ".join(sorted(set(columns) - record.keys()))
    if missing:
        raise Malformed(f"the file has no column {missing}")


def listed(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in a record; empty if there is none.

    Raises:
        Malformed: something else stands there.
    """
    items = record.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Malformed(f"{name} must be a list of objects, not {shown(items)}")
    return items


def inside(record: Any, *names: str) -> dict[str, Any]:
    """The object that stands under these names, one in the other; an empty one if none does."""
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def without_nothing(value: Any) -> Any:
    """A value without the keys that hold None: columns of a table have them for each row."""
    if isinstance(value, dict):
        return {key: without_nothing(item) for key, item in value.items() if item is not None}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value


class Samples:
    """Names the samples of a file that does not: each by the index of its first rollout."""

    def __init__(self) -> None:
        self._first: dict[Hashable, int] = {}
        self._rollouts: Counter[Hashable] = Counter()

    def of(self, mark: Hashable, index: int) -> dict[str, Any]:
        """The coordinates of a rollout; rollouts of one sample have the same mark."""
        number = self._rollouts[mark]
        self._rollouts[mark] += 1
        return {"sample_index": self._first.setdefault(mark, index), "rollout_n": number}


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _fitting(name: str, kind: ColumnType, value: Any) -> Any:
    if value is None:
        return None
    if kind == "json":
        return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
    if kind in ("text", "long text") and isinstance(value, str):
        return clean_text(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "float64" and is_number(value):
        try:
            return float(value)
        except OverflowError:
            raise Malformed(f"{name} is too large: {shown(value)}") from None
    if kind in _INT_BITS and isinstance(value, int) and not isinstance(value, bool):
        if -(1 << _INT_BITS[kind]) <= value < 1 << _INT_BITS[kind]:
            return value
        raise Malformed(f"{name} does not fit {kind}: {shown(value)}")
    if kind.endswith("[]") and hasattr(value, "type"):  # an Arrow array, from `take_columns`
        return value
    if kind == "int32[]" and isinstance(value, list) and all(type(n) is int and abs(n) < 1 << 31 for n in value):
        return value
    wanted = {
        "text": "text",
        "long text": "text",
        "int32[]": "whole numbers",
        "bool": "true or false",
        "float64": "a number",
    }.get(kind, "a whole number")
    raise Malformed(f"{name} must be {wanted}, not {shown(value)}")


def shown(value: Any) -> str:
    """A value as it stands in the message of a `Malformed`."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, int) and abs(value) > 1 << 128:
        return "a huge number"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def number_again(value: Any, *, digits: bool = True, formatted: bool = True) -> Any:
    """The number that a text was, or the value itself.

    Args:
        value: Whatever a file holds.
        digits: Whether digits alone count: where ids and answers may stand, "42" is as likely text.
        formatted: Whether one counts that Python would have written in another way, such as "1.000".
    """
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NUMBER:
        return value
    text = value.strip()
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is not None:
        text, digits = wrapped[1].strip(), True
    if text in _BOOLS:
        return _BOOLS[text]
    if _DECIMAL.fullmatch(text):
        return float(text) if formatted or wrapped is not None or str(float(text)) == text else value
    return int(text) if digits and _DIGITS.fullmatch(text) else value


def numbers_again(value: Any, *, digits: bool = True, formatted: bool = True) -> Any:
    """As `number_again`, for all that a dict or a list holds."""
    if isinstance(value, dict):
        return {key: numbers_again(item, digits=digits, formatted=formatted) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_again(item, digits=digits, formatted=formatted) for item in value]
    return number_again(value, digits=digits, formatted=formatted)
