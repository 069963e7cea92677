"""Decode a prompt that grows from turn to turn only once: each turn, what is new.

A model call sees everything said before. Its token ids begin with the bytes that the call before had, so comparing
bytes, which is fast, saves decoding them, which is most of the drainer's work.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec
import pyarrow as pa

_MOST_TRAJECTORIES = 512
_SHORTEST_BYTES = 512


class _Prompt(NamedTuple):
    length: int
    body: bytes
    """The msgpack of the items, without the head of the array."""
    ids: pa.Array


class Prefixes:
    """The newest prompt of each trajectory."""

    def __init__(self) -> None:
        self._newest: OrderedDict[bytes, _Prompt] = OrderedDict()

    def read(self, trajectory_id: bytes, raw: bytes) -> pa.Array | None:
        """The token ids in a msgpack array; None if it is short or holds anything else."""
        if len(raw) < _SHORTEST_BYTES or raw[0] not in (0xDC, 0xDD):
            return None
        width = 2 if raw[0] == 0xDC else 4
        count, body = int.from_bytes(raw[1 : 1 + width], "big"), raw[1 + width :]
        before = self._newest.pop(trajectory_id, None)
        try:
            if before is not None and count >= before.length and body.startswith(before.body):
                rest = _decode(count - before.length, body[len(before.body) :])
                ids = pa.concat_arrays([before.ids, rest])
            else:
                ids = _decode(count, body)
        except (pa.ArrowException, msgspec.DecodeError, TypeError, OverflowError, ValueError, RecursionError):
            return None
        self._newest[trajectory_id] = _Prompt(count, body, ids)
        if len(self._newest) > _MOST_TRAJECTORIES:
            self._newest.popitem(last=False)
        return ids


def _decode(count: int, body: bytes) -> pa.Array:
    return pa.array(msgspec.msgpack.decode(b"\xdd" + count.to_bytes(4, "big") + body, type=list[int]), type=pa.int32())
