"""What a drainer remembers between two batches, on disk, so that the next drainer goes on where it was.

    JOURNALS/batch-NNNNNNNN-HASH.state     HASH is that of the positions: two drainers do not replace each other's
    JOURNALS/committed                     how far each journal is in the tables, for whoever waits for that

It is saved before its batch is committed, with the positions that the batch ends at. After a kill, the state whose
positions the last table has is taken up, and the batch whose positions the first one has, if that is another one, is
read again to exactly the same end. It does not matter which drainer had begun it.

    JOURNALS/HASH-NUMBER.ended             trajectories that the checks of other packages have not looked at yet

Without such checks none is written. Its name follows from where its batch ends: one that is read again after a kill has
the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import xxhash

from rolltrace.files import open_private, replace_file
from rolltrace.record import OpEnd, OpStart, TrajectoryEnd, TrajectoryStart, decode_record, encode_record, read_partly

_NAME = re.compile(r"batch-([0-9]{8,})-[0-9a-f]{16}\.state", re.ASCII)
KEPT_STATES = 2
_MAX_IDS = 50
"""How many trajectories are checked before draining has its turn again."""
OpenKey = tuple[str, bytes | int]
OpenRecords = dict[OpenKey, OpStart | TrajectoryStart]
"""What has begun and not ended in a journal."""


class JournalState(msgspec.Struct, array_like=True):
    """What is remembered of one journal."""

    position: int
    """How far its records are in the batch, as a number (`journal.tail.Position`); -1 if none is."""
    open_records: list[bytes] = []
    past: bytes = b""
    """What checks know of trajectories that are not over."""
    losses: dict[str, dict[str, int]] = {}
    """What its writer lost, as far as that was told, in the segment of the position."""
    is_over: bool = False


class DrainState(msgspec.Struct, array_like=True):
    """What is remembered after one batch."""

    number: int
    journals: dict[str, JournalState] = {}
    transcripts: dict[str, bytes] = {}
    homes: dict[str, tuple[str, str, int | None, bool]] = {}
    """Where trajectories that are not over began: project, experiment, step, and whether it is a group record."""

    @property
    def positions(self) -> dict[str, int]:
        return {name: journal.position for name, journal in self.journals.items()}


_encode = _encode_positions = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DrainState).decode


def save_state(folder: Path, state: DrainState) -> None:
    """Write a state, so that it is on the disk, and remove those that are older than the one before it."""
    name = xxhash.xxh3_64_hexdigest(_encode_positions(sorted(state.positions.items())))
    replace_file(folder / f"batch-{state.number:08d}-{name}.state", _encode(state), durable=True)
    for number, path in _states(folder):
        if number <= state.number - KEPT_STATES:
            path.unlink(missing_ok=True)


def load_states(folder: Path) -> list[DrainState]:
    """The states that can be read, the newest first."""
    states = []
    for _, path in sorted(_states(folder), reverse=True):
        try:
            with open_private(path) as file:
                states.append(_decode(file.read()))
        except (OSError, ValueError, msgspec.MsgspecError):
            continue
    return states


def remove_states(folder: Path) -> None:
    """Nothing is to be remembered: no journal is left."""
    for _, path in _states(folder):
        path.unlink(missing_ok=True)


def _states(folder: Path) -> list[tuple[int, Path]]:
    try:
        paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return [(int(path.name.split("-")[1]), path) for path in paths]


def note_committed(folder: Path, positions: dict[str, int]) -> None:
    """Say how far the journals are in the tables, now that they are."""
    replace_file(folder / "committed", msgspec.msgpack.encode(positions))


def committed_positions(folder: Path) -> dict[str, int]:
    """How far each journal is in the tables, at least."""
    try:
        with open_private(folder / "committed") as file:
            return msgspec.msgpack.decode(file.read(), type=dict[str, int])
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}


class Ended(msgspec.Struct, array_like=True):
    """Trajectories that ended, and what their writers said about checks."""

    checks: str
    trajectory_ids: list[str]


def save_ended(folder: Path, positions: Mapping[str, int], checks: str, trajectory_ids: Sequence[str]) -> None:
    """Remember what ended in the batch that ends at these positions, for the checks that other packages bring."""
    name = xxhash.xxh3_64_hexdigest(repr(sorted(positions.items())).encode())
    for number, at in enumerate(range(0, len(trajectory_ids), _MAX_IDS)):
        ended = Ended(checks, list(trajectory_ids[at : at + _MAX_IDS]))
        replace_file(folder / f"{name}-{number:06d}.ended", msgspec.msgpack.encode(ended), durable=True)


def open_key(record: OpStart | OpEnd | TrajectoryStart | TrajectoryEnd) -> OpenKey:
    """The key of what a record begins or ends."""
    if isinstance(record, OpStart | OpEnd):
        return "op", record.op_id
    return "trajectory", record.trajectory_id


def note_record(record: object, still_open: OpenRecords) -> bool:
    """Remember what a record begins and forget what it ends; whether it begins, or ends what was known to be open."""
    if isinstance(record, OpEnd | TrajectoryEnd):
        return still_open.pop(open_key(record), None) is not None
    if not isinstance(record, OpStart | TrajectoryStart):
        return False
    key = open_key(record)
    before = still_open.get(key)
    if not isinstance(record, OpStart) or not isinstance(before, OpStart):
        still_open[key] = record
    elif before.items:
        before.items.extend(record.items)  # not `with_items`, which would copy all of a stream for each piece
    else:
        still_open[key] = before.with_items(record)
    return before is None


def note_unread(body: bytes, still_open: OpenRecords) -> bool:
    """The same for an end that cannot be read: if it can be told what it ends, that is not open any more."""
    tag, fields = read_partly(body)
    kind, name = {"op_end": ("op", "op_id"), "trajectory_end": ("trajectory", "trajectory_id")}.get(tag, ("", ""))
    return name in fields and still_open.pop((kind, fields[name]), None) is not None


def decode_open(bodies: Iterable[bytes]) -> OpenRecords:
    """The records that were saved; what cannot be read is left out."""
    still_open: OpenRecords = {}
    for body in bodies:
        try:
            note_record(decode_record(body), still_open)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            continue
    return still_open


def name_open(journal: str, record: OpStart | TrajectoryStart) -> str:
    """What stands for the place of a record that was open when its process died."""
    return f"{journal}-open-{xxhash.xxh3_64_hexdigest(encode_record(record))}"
