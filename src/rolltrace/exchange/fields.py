"""Reads typed fields of records that others wrote. Whatever is not what its format says is refused by name.

Numbers that a writer made text, as `json.dumps(..., default=str)` does with those of NumPy, torch and `decimal`, are
numbers again. Text that a person formatted ("85%", "1.0 / 2") stays, and is flagged where a number should be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from datetime import datetime, timezone
from typing import Any, TypeGuard

from rolltrace.record import SampleIndex, coordinate

_DIGITS = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WRAPPED = re.compile(r"(?:tensor|np\.\w+|numpy\.\w+|Decimal)\(['\"]?([^,()'\"]+)['\"]?(?:,[^()]*)?\)")
"""How torch, NumPy and decimals write themselves: tensor(0.5000, device='cuda:0'), np.float32(0.5)."""
_BOOLS = {"True": True, "False": False}
_MAX_NUMBER_CHARS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_NS = (1 << 63) - 1


class Malformed(ValueError):
    """A record that is not what its format says; the message tells why."""


def whole(value: Any, name: str) -> int | None:
    """A coordinate that must be a whole number, if it is there."""
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


def text(record: Mapping[str, Any], name: str) -> str | None:
    """A text of a record, if it is there."""
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{name} must be text, not {shown(value)}")
    return value


def sample(value: Any) -> SampleIndex | None:
    """Which sample: a whole number or text."""
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return coordinate(value)
    raise Malformed(f"sample_index must be a whole number or text, not {shown(value)}")


def require(record: Mapping[str, Any], *columns: str) -> None:
    """Refuse a row of a table that lacks a column."""
    missing = ", ".join(sorted(set(columns) - record.keys()))
    if missing:
        raise Malformed(f"the file has no column {missing}")


def items(record: Mapping[str, Any], name: str) -> list[Any]:
    """A list in a record; empty if there is none."""
    values = record.get(name) or []
    if not isinstance(values, list):
        raise Malformed(f"{name} must be a list, not {shown(values)}")
    return values


def objects(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in a record; empty if there is none."""
    values = record.get(name) or []
    if not isinstance(values, list):
        raise Malformed(f"{name} must be a list of objects, not {shown(values)}")
    for at, value in enumerate(values):
        if not isinstance(value, dict):
            raise Malformed(f"{name} must be a list of objects: {name}[{at}] must be an object, not {shown(value)}")
    return values


def inside(record: Any, *names: str) -> dict[str, Any]:
    """The object that stands under these names, one in the other; an empty one if none does."""
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def pick(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """These fields of a record, as far as it has them."""
    return {name: record[name] for name in names if record.get(name) is not None}


def leave(record: Mapping[str, Any], known: Any) -> dict[str, Any]:
    """The fields of a record that are not known: they become tags."""
    return {name: value for name, value in record.items() if name not in known}


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


def numbers_in(values: Mapping[Any, Any]) -> dict[str, float]:
    """Those of these values that are numbers: terms of a reward."""
    return {str(name): float(value) for name, value in values.items() if is_number(value)}


def shown(value: Any) -> str:
    """A value as it stands in the message of a `Malformed`."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, int) and abs(value) > 1 << 128:
        return "a huge number"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def number_again(value: Any, *, digits: bool = True, formatted: bool = True) -> Any:
    """The number that a text was, or the value itself; for a dict or a list, all that it holds.

    Args:
        value: Whatever a file holds.
        digits: Whether digits alone count: where ids and answers may stand, "42" is as likely text.
        formatted: Whether one counts that Python would have written in another way, such as "1.000".
    """
    if isinstance(value, dict):
        return {key: number_again(item, digits=digits, formatted=formatted) for key, item in value.items()}
    if isinstance(value, list):
        return [number_again(item, digits=digits, formatted=formatted) for item in value]
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NUMBER_CHARS:
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


def time_of(value: Any) -> int | None:
    """Nanoseconds since 1970 of a time in ISO 8601 (UTC if it names no zone) or in seconds; None if it is none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))  # 3.10 does not know the Z
        except ValueError:
            return None
        since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)) - _EPOCH
        nanoseconds = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NS / 1e9:
        nanoseconds = int(value * 1e9)
    else:
        return None
    return nanoseconds if 0 < nanoseconds <= _MAX_NS else None


def first_time(records: list[dict[str, Any]]) -> int | None:
    """The first `timestamp` that one of these has."""
    return next((time_ns for each in records if (time_ns := time_of(each.get("timestamp"))) is not None), None)


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A tool call as it stands in a message of OpenAI's chat format."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
