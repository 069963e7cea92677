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

_MOST_TRAJECTORIES = 512
_SHORTEST_BYTES = 512
_FLOAT64 = b"\xcb"
_ids_decoder = msgspec.msgpack.Decoder(list[int])
_NO_IDS = (struct.error, msgspec.DecodeError, TypeError, OverflowError, ValueError, RecursionError)


class _Ids(NamedTuple):
    """Some token ids."""

    length: int
    body: bytes
    """The msgpack of the items, without the head of the array."""
    ids: pa.Array


_NONE = _Ids(0, b"", pa.nulls(0, pa.int32()))


class _Seen:
    """What is remembered of a trajectory."""

    __slots__ = ("prompt", "response", "rest")

    def __init__(self) -> None:
        self.prompt = self.response = self.rest = _NONE
        """The longest prompt, the newest response, and what followed in the longest prompt after the newest."""


class NumberLists:
    """Reads lists of numbers, and remembers what may come again."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, _Seen] = OrderedDict()

    def read(self, column: str, trajectory_id: bytes, raw: bytes | memoryview) -> pa.Array | None:
        """The values of a token column in a whole msgpack item; None if it is short or anything else than expected."""
        if len(raw) < _SHORTEST_BYTES or raw[0] not in (0xDC, 0xDD):
            return None
        width = 2 if raw[0] == 0xDC else 4
        count, body = int.from_bytes(raw[1 : 1 + width], "big"), bytes(raw[1 + width :])
        if column == "logprobs":
            return _floats(count, body)
        if column == "response_mask":
            return _small(count, body)
        seen = self._seen.get(trajectory_id)
        if seen is None:
            seen = self._seen[trajectory_id] = _Seen()
            if len(self._seen) > _MOST_TRAJECTORIES:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(trajectory_id)
        try:
            return _prompt(seen, count, body) if column == "prompt_ids" else _response(seen, count, body)
        except _NO_IDS:
            return None


def _prompt(seen: _Seen, count: int, body: bytes) -> pa.Array:
    before = seen.prompt
    if count < before.length and before.body.startswith(body):
        seen.rest = _Ids(before.length - count, before.body[len(body) :], before.ids.slice(count))
        return before.ids.slice(0, count)
    seen.rest = _NONE
    found = _extended(before, count, body)
    seen.prompt = _Ids(count, body, found)
    return found


def _response(seen: _Seen, count: int, body: bytes) -> pa.Array:
    if count == seen.response.length and body == seen.response.body:
        return seen.response.ids
    found = _extended(seen.rest, count, body)
    seen.response = _Ids(count, body, found)
    return found


def _extended(before: _Ids, count: int, body: bytes) -> pa.Array:
    """The ids, of which only those are decoded that were not known before."""
    if before.length and count >= before.length and body.startswith(before.body):
        rest = _decode(count - before.length, body[len(before.body) :])
        return pa.concat_arrays([before.ids, rest])
    return _decode(count, body)


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
