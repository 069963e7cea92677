"""Token ids, logprobs and masks as Arrow arrays straight from their msgpack: no Python object for each number.

A model call sees everything said before: its token ids begin with the bytes that the call before had. Comparing bytes,
which is fast, saves decoding them, which would be most of the drainer's work. The same holds for an agent loop that
returns what its last model call saw, and for a parser that is given what a model answered.
"""

from __future__ import annotations

import struct
import sys
from collections import OrderedDict
from typing import NamedTuple

import msgspec
import pyarrow as pa

from rolltrace.record import COLUMN_OF

_MAX_TRAJECTORIES = 512
_MIN_BYTES = 512
_FLOAT64 = b"\xcb"
_LIST_WIDTHS = {0xDC: 2, 0xDD: 4}
"""How a long list begins, and how many bytes its length takes."""
_ids_decoder = msgspec.msgpack.Decoder(list[int])
_fields_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


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
    size: int
    """How many bytes it takes."""
    arrays: tuple[pa.Array, ...]


class NumberLists:
    """Reads lists of numbers, and remembers what may come again."""

    def __init__(self) -> None:
        self._trajectories: OrderedDict[bytes, _RecentIds] = OrderedDict()

    def fields(self, trajectory_id: bytes, raw: bytes | msgspec.Raw) -> dict[str, pa.Array | msgspec.Raw] | None:
        """The fields of a payload: the numbers of token columns, or msgpack; None if it is no dict with names."""
        try:
            parts = _fields_decoder.decode(raw)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return None
        fields: dict[str, pa.Array | msgspec.Raw] = {}
        for name, part in parts.items():
            column = COLUMN_OF.get(name)
            numbers = None if column is None else self.read(column, trajectory_id, bytes(part))
            fields[name] = part if numbers is None else numbers
        return fields

    def read(self, column: str, trajectory_id: bytes, raw: bytes) -> pa.Array | None:
        """The values of a token column in a whole msgpack item; None if it is short or anything else than expected."""
        width = _LIST_WIDTHS.get(raw[0]) if len(raw) >= _MIN_BYTES else None
        if width is None:
            return None
        count, body = int.from_bytes(raw[1 : 1 + width], "big"), raw[1 + width :]
        if column == "logprobs":
            return _floats(count, body)
        if column == "response_mask":
            return _small(count, body)
        recent = self._recent_ids(trajectory_id)
        begin = _known_begin(recent, column, count, body)
        arrays = begin.arrays
        if begin.length < count or begin.size < len(body):
            try:
                arrays = (*arrays, _decode(count - begin.length, body[begin.size :]))
            except (struct.error, msgspec.DecodeError, OverflowError, ValueError):
                return None
        ids = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return _remember(recent, column, _Ids(count, body, ids), is_new=not begin.length)

    def _recent_ids(self, trajectory_id: bytes) -> _RecentIds:
        recent = self._trajectories.get(trajectory_id)
        if recent is None:
            recent = self._trajectories[trajectory_id] = _RecentIds()
            if len(self._trajectories) > _MAX_TRAJECTORIES:
                self._trajectories.popitem(last=False)
        else:
            self._trajectories.move_to_end(trajectory_id)
        return recent


def _known_begin(recent: _RecentIds, column: str, count: int, body: bytes) -> _Begin:
    """As much of a list of `count` ids as was seen before."""
    before = recent.prompt
    if column == "prompt_ids" and count < before.length:
        size = recent.ends.get(count)
        if size is None or not body.startswith(before.body[:size]):
            return _Begin(0, 0, ())
        return _Begin(count, size, (before.ids.slice(0, count),))
    length, size, arrays = 0, 0, []
    for part in (before if column == "prompt_ids" else recent.rest, recent.response):
        if part.length and length + part.length <= count and body.startswith(part.body, size):
            length += part.length
            size += len(part.body)
            arrays.append(part.ids)
    return _Begin(length, size, tuple(arrays))


def _remember(recent: _RecentIds, column: str, read: _Ids, *, is_new: bool) -> pa.Array:
    """The ids that were read, which may come again."""
    before = recent.prompt
    if column != "prompt_ids":
        recent.response = read
    elif read.length < before.length and before.body.startswith(read.body):
        recent.rest = _Ids(before.length - read.length, before.body[len(read.body) :], before.ids.slice(read.length))
        return before.ids.slice(0, read.length)
    else:
        if is_new:
            recent.ends.clear()
        recent.ends[read.length] = len(read.body)
        recent.prompt, recent.rest = read, _NONE
    return read.ids


def _decode(count: int, body: bytes) -> pa.Array:
    ids = _ids_decoder.decode(b"\xdd" + count.to_bytes(4, "big") + body)
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
