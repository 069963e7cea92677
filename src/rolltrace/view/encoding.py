"""What `query` gives, as JSON of a response type. The rules of the wire, each once: see `view.wire`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec

_AS_TEXT = frozenset({"op_id", "parent_id", "parent_op_id", "sample_index"})
"""Numbers of more than 53 bits, or a number or a text."""
_encoder = msgspec.json.Encoder()


def encoded(answer: type[msgspec.Struct], value: Any) -> bytes:
    """Rows, dicts, dataclasses and named tuples as JSON of this type. What the type does not have is left out."""
    return _encoder.encode(msgspec.convert(_plain(value), answer))


def encoded_struct(answer: msgspec.Struct) -> bytes:
    """A response that was made by hand."""
    return _encoder.encode(answer)


def recorded(value: Any) -> msgspec.Raw:
    """A recorded value for a field of the type `Json`: bounded, and none of our rules applied inside."""
    from rolltrace.query import bounded  # here, so that files are served while `query` still loads

    return msgspec.Raw(_encoder.encode(bounded(value)))


def recorded_whole(value: Any) -> msgspec.Raw:
    """A recorded value that is bounded already."""
    return msgspec.Raw(_encoder.encode(value))


def _plain(value: Any, name: str = "") -> Any:
    if value is None or isinstance(value, str | bool | msgspec.Raw):
        return value
    if isinstance(value, int):
        return str(value) if name in _AS_TEXT else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _plain(item, key) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(item, key) for key, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return _plain_list(value)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"cannot be encoded for the wire: {type(value).__name__}")


def _plain_list(values: list[Any] | tuple[Any, ...]) -> list[Any]:
    if values and type(values[0]) is int and all(type(each) is int for each in values):  # token ids: many
        return list(values)
    return [_plain(item) for item in values]
