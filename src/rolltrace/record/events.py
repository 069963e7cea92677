"""What a journal holds: one slotted type per kind of record.

On disk a record is a msgpack array whose first item is the tag. Every record says which trajectory
and coordinates it belongs to, and an end is complete in itself, so that no record needs another one,
perhaps in a file already gone, to be understood. Fields are only ever added at the end, with a default:
old readers skip them, new readers fill them in.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from rolltrace.record.schema import Coordinates

NOTHING = Raw(b"\xc0")
"""An absent payload: msgpack nil."""


class _Record(msgspec.Struct, array_like=True, gc=False, frozen=True):
    trajectory_id: bytes
    """16 random bytes, the W3C trace id."""
    coordinates: Raw
    """msgpack of `Coordinates`."""


class Error(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """An exception that left a traced call."""

    type: str
    message: str
    traceback: str


class TrajectoryStart(_Record, tag="trajectory_start", frozen=True):
    name: str
    start_ns: int
    parent_trajectory_id: bytes | None
    parent_op_id: int
    tags: Raw
    is_group: bool = False
    """What belongs to all rollouts of a sample, and is none itself."""
    run: str = ""
    """The run it belongs to, if that is not its writer's: a proxy's branch is of the run that began its rollout."""


class TrajectoryEnd(_Record, tag="trajectory_end", frozen=True):
    name: str
    start_ns: int
    end_ns: int
    status: str
    error: Error | None
    parent_trajectory_id: bytes | None
    parent_op_id: int
    tags: Raw
    """The tags as they are at the end, those of `tag(...)` included."""
    is_group: bool = False
    run: str = ""


class OpStart(_Record, tag="op_start", frozen=True):
    op_id: int
    parent_id: int
    """The op that made this call; 0 for the top op of a trajectory."""
    name: str
    kind: str
    start_ns: int
    inputs: Raw
    """Absent when large: the end has them. Writing a long prompt twice would double the cost of the op."""
    items: list[Raw] = []
    """What a stream gave since the last such record of it: where the end of a stream may never come, each of its pieces
    is written when it has come, in a start of the same op (`with_items`)."""

    def with_items(self, more: OpStart) -> OpStart:
        """The start of a stream with what a later record of it adds."""
        inputs = more.inputs if self.inputs == NOTHING else self.inputs
        return msgspec.structs.replace(self, inputs=inputs, items=[*self.items, *more.items])


class OpEnd(_Record, tag="op_end", frozen=True):
    op_id: int
    parent_id: int
    name: str
    kind: str
    start_ns: int
    end_ns: int
    status: str
    error: Error | None
    inputs: Raw
    outputs: Raw
    thread: str = ""
    """Name of the thread, when it is not the main one."""
    tokenizer: str = ""
    """Fingerprint of the tokenizer of its tokens; `own-process` when a `text` event will tell their text."""


class Event(_Record, tag="event", frozen=True):
    """Something said about a trajectory: a tag, a reward or another score, a transition or what is to be changed in
    one, a note, a decoded text.

    A score may come from anywhere, long after: with no trajectory id (empty) but coordinates, or the other way round.
    """

    event: str
    time_ns: int
    op_id: int
    body: Raw


class Blob(msgspec.Struct, array_like=True, gc=False, frozen=True, tag="blob"):
    """Large content that values point to by its hash, written once per writer."""

    hash: str
    media: str
    """`image/raw` for pixels."""
    info: Raw
    data: bytes


Record = TrajectoryStart | TrajectoryEnd | OpStart | OpEnd | Event | Blob

encode_record = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_coordinates = msgspec.msgpack.Decoder(Coordinates)


def decode_record(body: bytes | memoryview) -> Record:
    """The record in these bytes. Payloads stay encoded; `decode_value` opens them.

    Raises:
        msgspec.DecodeError: the bytes are no record of this version.
    """
    return _decoder.decode(body)


def decode_coordinates(raw: Raw) -> Coordinates:
    return _coordinates.decode(raw)
