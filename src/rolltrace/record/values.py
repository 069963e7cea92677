"""Recorded values that msgpack has no type for, and how to read them back.

Each is a msgpack extension: a code and, inside, a msgpack array of the fields. A user's own data can
never be taken for one of them.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import msgspec
from msgspec.msgpack import Ext

_encode = msgspec.msgpack.Encoder().encode


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
        flat = self._flat()
        return flat if len(self.shape) == 1 else _nest(iter(flat), self.shape)

    def _flat(self) -> list[Any]:
        if self.dtype == "bfloat16":  # the upper half of a float32
            halves = struct.unpack(f"<{len(self.data) // 2}H", self.data)
            return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves))))
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


MARKERS: dict[int, type[Marker]] = {each.code: each for each in (Array, ArraySummary, Image, Opaque, Cut)}

BIG_INT, COMPLEX, TEXT = 10, 11, 12
"""Codes of plain Python values: integers over 64 bits, complex numbers, text with lone surrogates."""

_PLAIN: dict[int, Callable[[bytes], Any]] = {
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


def _open_ext(code: int, data: memoryview | bytes) -> Any:
    raw = bytes(data)
    if code in _PLAIN:
        return _PLAIN[code](raw)
    marker = MARKERS.get(code)
    if marker is None:
        return Opaque("unknown", {"code": code, "bytes": len(raw)}, "written by a newer rolltrace")
    values = decode_value(raw)
    for at, each in enumerate(fields(marker)):
        if each.name in ("shape", "size"):
            values[at] = tuple(values[at])
    return marker(*values)


_decoder = msgspec.msgpack.Decoder(ext_hook=_open_ext)


def decode_value(raw: bytes | msgspec.Raw) -> Any:
    """A recorded payload as Python values; markers come back as instances of `Marker`."""
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError:
        return _decode_odd_keys(bytes(raw))


def _decode_odd_keys(raw: bytes) -> Any:
    """msgspec refuses maps whose keys are maps (a dataclass used as a key); such keys come back as text."""
    import msgpack

    def pairs(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
        return {_hashable(key): value for key, value in items}

    def ext(code: int, data: bytes) -> Any:
        if code == -1:
            return msgspec.msgpack.decode(_encode(Ext(-1, data)))
        return _open_ext(code, data)

    return msgpack.unpackb(
        raw, object_pairs_hook=pairs, ext_hook=ext, strict_map_key=False, timestamp=3, use_list=True, raw=False
    )


def _hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return str(key)
    return key


def to_json(value: Any) -> Any:
    """A decoded payload as JSON types. What JSON cannot hold becomes an object with one `$` key."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, complex):
        return {"$complex": [value.real, value.imag]}
    if isinstance(value, Array):
        return {"$array": {"dtype": value.dtype, "shape": list(value.shape), "values": to_json(value.tolist())}}
    if isinstance(value, Marker):
        name = type(value).__name__
        return {f"${name[0].lower()}{name[1:]}": {f.name: to_json(getattr(value, f.name)) for f in fields(value)}}
    return {"$unknown": type(value).__name__}
