"""Which trajectories ended in a batch, until the checks that other packages bring have looked at them.

    JOURNALS/HASH-NUMBER.ended

Written before the batch is committed, under a name that follows from where the batch ends: one that is read again
after a kill has the same files. Without such checks nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import xxhash

from rolltrace.files import replace_file
from rolltrace.flags import PLUGIN_GROUP

_MAX_IDS = 50
"""How many trajectories are checked before draining has its turn again."""


class Ended(msgspec.Struct, array_like=True):
    """Trajectories that ended, and what their writers said about checks."""

    checks: str
    trajectory_ids: list[str]


class EndedTrajectories:
    """Remembers what ended, for the drainers of one host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_plugins: bool | None = None

    def remember(self, positions: Mapping[str, int], checks: str, trajectory_ids: Sequence[str]) -> None:
        """Remember what ended in the batch that ends at these positions of the journals."""
        if not trajectory_ids:
            return
        if self._has_plugins is None:
            self._has_plugins = bool(entry_points(group=PLUGIN_GROUP))
        if not self._has_plugins:
            return
        name = xxhash.xxh3_64_hexdigest(repr(sorted(positions.items())).encode())
        for number, at in enumerate(range(0, len(trajectory_ids), _MAX_IDS)):
            ended = Ended(checks, list(trajectory_ids[at : at + _MAX_IDS]))
            replace_file(self._folder / f"{name}-{number:06d}.ended", msgspec.msgpack.encode(ended), durable=True)
