"""Recorded values that msgpack has no type for, and what they are in JSON.

Each is a msgpack extension: a code and, inside, a msgpack array of the fields. A user's own data can
never be taken for one of them.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import msgspec
from msgspec.msgpack import Ext

from rolltrace.record.schema import MAX_DEPTH, clean_text

_encode = msgspec.msgpack.Encoder().encode
_MAX_LEVELS = MAX_DEPTH + 16
"""How deep JSON may be nested: a decoded value, what it stands in, and what an array adds. Every JSON library has such
a limit, and the smallest are not far above."""


@dataclass(frozen=True)
class Marker:
    """A value that stands for something else; the subclasses say what."""

    code: ClassVar[int]

    def ext(self) -> Ext:
        return Ext(self.code, _encode([getattr(self, each.name) for each in fields(self)]))


@dataclass(frozen=True)
class Array(Marker):
    """The exact values of a NumPy array, a CPU tensor or an `array.array`."""

    code: ClassVar[int] = 1
    dtype: str
    """NumPy's own notation ('<i8', '<f4', '|b1'), or 'bfloat16'."""
    shape: tuple[int, ...]
    data: bytes

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        if not self.data and math.prod(filter(None, self.shape)) > _MAX_EMPTY:
            return []  # (1_000_000_000, 0) is a shape too
        flat = self._flat()
        return flat if len(self.shape) == 1 else _nest(iter(flat), self.shape)

    def _flat(self) -> list[Any]:
        if self.dtype == "bfloat16":  # the upper half of a float32
            count = len(self.data) // 2
            halves = struct.unpack(f"<{count}H", self.data)
            return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(half << 16 for half in halves))))
        order, kind = (">" if self.dtype[0] == ">" else "<"), self.dtype[1:]
        letter = _STRUCT_LETTERS[kind]
        if kind[0] == "c":
            parts = struct.unpack(f"{order}{len(self.data) // struct.calcsize(letter)}{letter}", self.data)
            return [complex(*pair) for pair in zip(parts[::2], parts[1::2])]
        return list(struct.unpack(f"{order}{len(self.data) // struct.calcsize(letter)}{letter}", self.data))


def _nest(values: Iterator[Any], shape: tuple[int, ...]) -> Any:
    return [_nest(values, shape[1:]) for _ in range(shape[0])] if shape else next(values)


_STRUCT_LETTERS = {
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d", "b1": "?", "c8": "f", "c16": "d",
}  # fmt: skip
_ITEM_BYTES = {kind: int(kind[1:]) for kind in _STRUCT_LETTERS}
ARRAY_KINDS = frozenset(_STRUCT_LETTERS)
"""The dtypes, without byte order, whose values `Array` can hold."""


@dataclass(frozen=True)
class ArraySummary(Marker):
    """An array whose values were not kept: too large, or on a device that must not be waited for."""

    code: ClassVar[int] = 2
    type: str
    dtype: str
    shape: tuple[int, ...]
    device: str
    statistics: dict[str, float] | None
    """min, max, mean, std, and `sampled`: over how many of the values they were taken."""


@dataclass(frozen=True)
class Image(Marker):
    """A picture; its pixels are the blob with this hash."""

    code: ClassVar[int] = 3
    hash: str
    mode: str
    size: tuple[int, int]
    format: str | None


@dataclass(frozen=True)
class Opaque(Marker):
    """A value that cannot be recorded: its type, its plain fields, and why if that is not obvious."""

    code: ClassVar[int] = 4
    type: str
    fields: dict[str, Any]
    reason: str = ""


@dataclass(frozen=True)
class Cut(Marker):
    """The part that was kept of a value over a limit."""

    code: ClassVar[int] = 5
    limit: str
    """Which limit: 'bytes', 'items' or 'depth'."""
    full_length: int
    """Characters, bytes or items that the whole value had."""
    kept: Any


BLOB_NAME = re.compile(r"[0-9a-f]{16,64}")
"""The hash that names a blob. What is read anywhere and does not look like this is no name of a file of ours."""
_MAX_DIMENSIONS = 64
_MAX_EMPTY = 1 << 16
"""How many empty lists an array without values becomes at most."""


def is_sound(marker: Marker) -> bool:
    """Whether its fields are what they should be. Markers are read from files, and anybody can write a file."""
    if isinstance(marker, Cut):
        return isinstance(marker.limit, str) and _is_count(marker.full_length)
    if isinstance(marker, Opaque):
        return isinstance(marker.type, str) and isinstance(marker.fields, dict) and isinstance(marker.reason, str)
    if isinstance(marker, Image):
        return (
            isinstance(marker.hash, str)
            and BLOB_NAME.fullmatch(marker.hash) is not None
            and isinstance(marker.mode, str)
            and _is_shape(marker.size)
            and len(marker.size) == 2
            and isinstance(marker.format, str | None)
        )
    if not isinstance(marker, Array | ArraySummary) or not isinstance(marker.dtype, str) or not _is_shape(marker.shape):
        return False
    if isinstance(marker, ArraySummary):
        numbers = (marker.statistics or {}).values() if isinstance(marker.statistics, dict | None) else [None]
        return (
            isinstance(marker.type, str)
            and isinstance(marker.device, str)
            and all(isinstance(each, int | float) for each in numbers)
        )
    width = 2 if marker.dtype == "bfloat16" else _ITEM_BYTES.get(marker.dtype[1:], 0)
    # The shape is not what says how much there is: 66 bytes may claim to be 10 ** 12 numbers.
    return isinstance(marker.data, bytes) and width > 0 and math.prod(marker.shape) * width == len(marker.data)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and len(shape) <= _MAX_DIMENSIONS and all(map(_is_count, shape))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


MARKERS: dict[int, type[Marker]] = {each.code: each for each in (Array, ArraySummary, Image, Opaque, Cut)}

BIG_INT, COMPLEX, TEXT = 10, 11, 12
"""Codes of plain Python values: integers over 64 bits, complex numbers, text with lone surrogates."""

PLAIN: dict[int, Callable[[bytes], Any]] = {
    BIG_INT: lambda data: int(data, 16),
    COMPLEX: lambda data: complex(*struct.unpack("<dd", data)),
    TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
}


def big_int(value: int) -> Ext:
    # Hexadecimal, because Python refuses to print huge decimals (sys.set_int_max_str_digits).
    return Ext(BIG_INT, hex(value).encode())


def odd_text(value: str) -> Ext:
    return Ext(TEXT, value.encode("utf-8", "surrogatepass"))


def complex_number(value: complex) -> Ext:
    return Ext(COMPLEX, struct.pack("<dd", value.real, value.imag))


def to_json(value: Any) -> Any:
    """A decoded payload as JSON types, strictly: any JSON writer and reader takes the result.

    What JSON cannot hold (bytes, NaN, integers over 64 bits, markers) becomes an object with one `$` key.
    Keys that are no text are written as JSON; if two are then the same, the whole becomes a `$map` of pairs.
    """
    return _json(value, _MAX_LEVELS)


def key_text(key: Any) -> str:
    """Text for a key that cannot stay what it is."""
    plain = to_json(key)
    return plain if type(plain) is str else json.dumps(plain, ensure_ascii=False)


def _json(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if value.isascii() else clean_text(value)
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else {"$int": hex(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if levels <= 0:
        return _json(Cut("depth", 0, None), 3)
    if isinstance(value, list | tuple):
        return [_json(item, levels - 1) for item in value]
    if isinstance(value, dict):
        names = [key_text(key) for key in value]
        if len(set(names)) == len(names):  # asked before the items are converted: twice at each level is 2 ** levels
            return {name: _json(item, levels - 1) for name, item in zip(names, value.values())}
        return {"$map": [[_json(key, levels - 3), _json(item, levels - 3)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, complex):
        return {"$complex": [_json(value.real, levels), _json(value.imag, levels)]}
    if isinstance(value, Array):
        values = _json(value.tolist(), levels - 2) if value.data else []
        return {"$array": {"dtype": value.dtype, "shape": list(value.shape), "values": values}}
    if isinstance(value, Marker):
        name = type(value).__name__
        inside = {each.name: _json(getattr(value, each.name), levels - 2) for each in fields(value)}
        return {f"${name[0].lower()}{name[1:]}": inside}
    return {"$unknown": type(value).__name__}
