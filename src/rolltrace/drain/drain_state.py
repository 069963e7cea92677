"""What a drainer remembers between two batches, on disk, so that the next drainer goes on where it was.

    JOURNALS/batch-NNNNNNNN-HASH.state     HASH is that of the positions: two drainers do not replace each other's
    JOURNALS/committed                     how far each journal is in the tables, for whoever waits for that

It is saved before its batch is committed, with the positions that the batch ends at. After a kill, the state whose
positions the last table has is taken up, and the batch whose positions the first one has, if that is another one, is
read again to exactly the same end. It does not matter which drainer had begun it.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import xxhash

from rolltrace.files import open_private, replace_file

_NAME = re.compile(r"batch-([0-9]{8,})-[0-9a-f]{16}\.state", re.ASCII)
KEPT_STATES = 2


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
