"""Token ids, logprobs and masks as Arrow arrays straight from their msgpack: no Python object for each number.

A model call sees everything said before: its token ids begin with the bytes that the call before had. Comparing bytes,
which is fast, saves decoding them, which would be most of the drainer's work. The same holds for an agent loop that
returns what its last model call saw, and for a parser that is given what a model answered.

Even to step over a list of numbers is to look at each of them. So the fields of a payload are found by hand as long as
it can be told by comparing bytes where their lists end; msgspec steps over the rest.
"""

from __future__ import annotations

import struct
import sys
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from rolltrace.record import COLUMN_OF

_MOST_TRAJECTORIES = 512
_SHORTEST_BYTES = 512
_FLOAT64 = b"\xcb"
_ITEM_BYTES = {"logprobs": 9, "response_mask": 1}
"""What a number of these columns takes, if it is as msgspec writes it."""
_LIST_WIDTHS = {0xDC: 2, 0xDD: 4}
"""How a long list begins, and how many bytes its length takes."""
_TEXT_WIDTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_SCALAR_BYTES = {
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), 1),
    **{0xA0 + length: 1 + length for length in range(32)},
    0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
}  # fmt: skip
"""How a number or a short text begins, and how many bytes it takes."""
_ids_decoder = msgspec.msgpack.Decoder(list[int])
_fields_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_NOT_AS_EXPECTED = (
    struct.error, msgspec.DecodeError, TypeError, OverflowError, ValueError, RecursionError, IndexError,
)  # fmt: skip

Field: TypeAlias = pa.Array | bytes | msgspec.Raw
"""The numbers of a token column, or any other value in msgpack."""


class _Ids(NamedTuple):
    """Some token ids."""

    length: int
    body: bytes
    """The msgpack of the items, without the head of the array."""
    ids: pa.Array


_NONE = _Ids(0, b"", pa.nulls(0, pa.int32()))


class _RecentIds:
    """What is remembered of a trajectory."""

    __slots__ = ("ends", "prompt", "response", "rest")

    def __init__(self) -> None:
        self.prompt = self.response = self.rest = _NONE
        """The longest prompt, the newest response, and what followed in the longest prompt after the newest."""
        self.ends: dict[int, int] = {}
        """Of the prompts that the longest one extends, their length and how many bytes they take."""


class _Begin(NamedTuple):
    """As much of a list of ids as was seen before."""

    length: int
    end: int
    """Where its bytes end."""
    arrays: tuple[pa.Array, ...]


class NumberLists:
    """Reads lists of numbers, and remembers what may come again."""

    def __init__(self) -> None:
        self._trajectories: OrderedDict[bytes, _RecentIds] = OrderedDict()

    def fields(self, trajectory_id: bytes, raw: bytes | msgspec.Raw) -> dict[str, Field] | None:
        """The fields of a payload; None if it is no dict with names."""
        body = bytes(raw)
        recent = self._recent_ids(trajectory_id)
        try:
            return _fields(recent, body)
        except _NOT_AS_EXPECTED:
            pass
        try:
            parts = _fields_decoder.decode(body)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return None
        return {name: _field(recent, name, part) for name, part in parts.items()}

    def read(self, column: str, trajectory_id: bytes, raw: bytes) -> pa.Array | None:
        """The values of a token column in a whole msgpack item; None if it is short or anything else than expected."""
        return _read(self._recent_ids(trajectory_id), column, raw)

    def _recent_ids(self, trajectory_id: bytes) -> _RecentIds:
        recent = self._trajectories.get(trajectory_id)
        if recent is None:
            recent = self._trajectories[trajectory_id] = _RecentIds()
            if len(self._trajectories) > _MOST_TRAJECTORIES:
                self._trajectories.popitem(last=False)
        else:
            self._trajectories.move_to_end(trajectory_id)
        return recent


def _fields(recent: _RecentIds, body: bytes) -> dict[str, Field]:
    """As `NumberLists.fields`, by hand as far as that goes.

    Raises:
        Exception: one of `_NOT_AS_EXPECTED`.
    """
    left, at = _map_head(body)
    fields: dict[str, Field] = {}
    while left:
        value_at = _end_of_key(body, at)
        name = body[at + 1 : value_at].decode()
        column = COLUMN_OF.get(name)
        begin = None
        if column is None:
            end = _end_of_scalar(body, value_at)
        else:
            length, start = _list_head(body, value_at)
            if column in _ITEM_BYTES:
                end = start + length * _ITEM_BYTES[column]
            else:
                begin = _known_begin(recent, column, length, body, start)
                end = begin.end if begin.length == length else 0
        field = _field(recent, name, body[value_at:end]) if end else None
        if field is None or (column is not None and not isinstance(field, pa.Array)):
            break
        fields[name] = field
        at, left = end, left - 1
    else:
        if at != len(body):
            raise ValueError("bytes after the end")
        return fields
    if begin is None or not begin.length:
        parts = _fields_decoder.decode(_map(left) + body[at:])
    else:  # only those ids are stepped over that are new
        head = _list(length - begin.length)
        parts = _fields_decoder.decode(b"".join((_map(left), body[at:value_at], head, body[begin.end :])))
        rest = bytes(parts[name])[len(head) :]
        ids = pa.concat_arrays([*begin.arrays, _decode(length - begin.length, rest)])
        fields[name] = _remembered(recent, column, _Ids(length, body[start : begin.end + len(rest)], ids), begin)
        del parts[name]
    fields.update((name, _field(recent, name, part)) for name, part in parts.items())
    return fields


def _field(recent: _RecentIds, name: str, part: bytes | msgspec.Raw) -> Field:
    column = COLUMN_OF.get(name)
    numbers = None if column is None else _read(recent, column, bytes(part))
    return part if numbers is None else numbers


def _read(recent: _RecentIds, column: str, raw: bytes) -> pa.Array | None:
    """As `NumberLists.read`."""
    if len(raw) < _SHORTEST_BYTES or raw[0] not in _LIST_WIDTHS:
        return None
    count, start = _list_head(raw, 0)
    if column == "logprobs":
        return _floats(count, raw[start:])
    if column == "response_mask":
        return _small(count, raw[start:])
    begin = _known_begin(recent, column, count, raw, start)
    try:
        rest = _decode(count - begin.length, raw[begin.end :]) if begin.length < count or begin.end < len(raw) else None
    except _NOT_AS_EXPECTED:
        return None
    arrays = begin.arrays if rest is None else (*begin.arrays, rest)
    ids = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    return _remembered(recent, column, _Ids(count, raw[start:], ids), begin)


def _known_begin(recent: _RecentIds, column: str, count: int, body: bytes, at: int) -> _Begin:
    """As much of a list of `count` ids, whose items begin here, as was seen before."""
    before = recent.prompt
    if column == "prompt_ids" and count < before.length:
        size = recent.ends.get(count)
        if size is None or not body.startswith(before.body[:size], at):
            return _Begin(0, at, ())
        return _Begin(count, at + size, (before.ids.slice(0, count),))
    length, arrays = 0, []
    for each in (before if column == "prompt_ids" else recent.rest, recent.response):
        if each.length and length + each.length <= count and body.startswith(each.body, at):
            length += each.length
            at += len(each.body)
            arrays.append(each.ids)
    return _Begin(length, at, tuple(arrays))


def _remembered(recent: _RecentIds, column: str | None, read: _Ids, begin: _Begin) -> pa.Array:
    """The ids that were read, which may come again."""
    before = recent.prompt
    if column != "prompt_ids":
        recent.response = read
    elif read.length < before.length and before.body.startswith(read.body):
        recent.rest = _Ids(before.length - read.length, before.body[len(read.body) :], before.ids.slice(read.length))
        return before.ids.slice(0, read.length)
    else:
        if not begin.length:
            recent.ends.clear()
        recent.ends[read.length] = len(read.body)
        recent.prompt, recent.rest = read, _NONE
    return read.ids


def _map_head(body: bytes) -> tuple[int, int]:
    """How many pairs a map has, and where the first begins."""
    if body[0] == 0xDE:
        return int.from_bytes(body[1:3], "big"), 3
    if not 0x80 <= body[0] <= 0x8F:
        raise ValueError("no map")
    return body[0] & 0x0F, 1


def _list_head(body: bytes, at: int) -> tuple[int, int]:
    """How many items a list has, and where the first begins; none, and nowhere, if it is no long list."""
    width = _LIST_WIDTHS.get(body[at])
    if width is None:
        return 0, 0
    start = at + 1 + width
    return int.from_bytes(body[at + 1 : start], "big"), start


def _map(count: int) -> bytes:
    return b"\xdf" + count.to_bytes(4, "big")


def _list(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def _end_of_key(body: bytes, at: int) -> int:
    if not 0xA0 <= body[at] <= 0xBF:
        raise ValueError("no short name")
    return at + _SCALAR_BYTES[body[at]]


def _end_of_scalar(body: bytes, at: int) -> int:
    """Where a value that is no container ends; 0 for all others."""
    size = _SCALAR_BYTES.get(body[at])
    if size is None:
        width = _TEXT_WIDTHS.get(body[at])
        if width is None:
            return 0
        size = 1 + width + int.from_bytes(body[at + 1 : at + 1 + width], "big")
    return at + size if at + size <= len(body) else 0


def _decode(count: int, body: bytes) -> pa.Array:
    ids = _ids_decoder.decode(_list(count) + body)
    packed = struct.pack(f"={count}i", *ids)  # in a third of the time that Arrow takes
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(packed)])


def _floats(count: int, body: bytes) -> pa.Array | None:
    """Numbers that are all 64-bit floats, as msgspec writes them: a byte that says so, and eight, the highest first."""
    if len(body) != 9 * count or body[::9] != _FLOAT64 * count:
        return None
    narrow = _narrow_with_numpy if "numpy" in sys.modules else _narrow  # Arrow loads NumPy where it is installed
    return narrow(count, body)


def _narrow_with_numpy(count: int, body: bytes) -> pa.Array:
    """Such numbers as 32-bit floats, in a twentieth of the time."""
    import numpy

    wide = numpy.frombuffer(body, dtype=[("head", "u1"), ("number", ">f8")])["number"]
    with numpy.errstate(over="ignore"):  # infinity, as Arrow has it
        return pa.Array.from_buffers(pa.float32(), count, [None, pa.py_buffer(wide.astype(numpy.float32))])


def _narrow(count: int, body: bytes) -> pa.Array:
    turned = bytearray(8 * count)
    for place in range(8):
        turned[place::8] = body[8 - place :: 9]
    return pa.Array.from_buffers(pa.float64(), count, [None, pa.py_buffer(turned)]).cast(pa.float32())


def _small(count: int, body: bytes) -> pa.Array | None:
    """Numbers from 0 to 127: each is its own byte."""
    if len(body) != count or not body.isascii():
        return None
    return pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(body)])
