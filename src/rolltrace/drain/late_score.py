"""Write a score to a store from outside of a rollout.

It goes through a journal of its own, like any other record: on disk when the call returns, read by everybody from that
moment, and drained at once unless a drainer is running, which then takes it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace.drain.follower import Follower
from rolltrace.errors import StoreError
from rolltrace.journal import JournalWriter
from rolltrace.record import Coordinates, Event, encode_record


class Addressee(NamedTuple):
    """Whom a score is about, and to which run it belongs."""

    project: str
    experiment: str
    trajectory_id: bytes
    coordinates: Coordinates
    run: str | None = None


def write_score(store: Path, about: Addressee, name: str, body: dict[str, Any], *, after_ns: int = 0) -> None:
    """Save one score. It is newer than one of `after_ns`, though the clock that gave that time may have been ahead.

    Raises:
        StoreError: the store cannot be written.
    """
    meta = {"project": about.project[:200], "experiment": about.experiment[:200], "run": about.run}
    writer = JournalWriter(store, meta)
    coordinates, payload = msgspec.Raw(encode_record(about.coordinates)), msgspec.msgpack.encode({"name": name, **body})
    record = Event(
        about.trajectory_id, coordinates, "score", max(time.time_ns(), after_ns + 1), 0, msgspec.Raw(payload)
    )
    saved = writer.append(encode_record(record), about.coordinates.step)
    writer.close()
    if not saved:
        raise StoreError(f"the score could not be saved in {str(store)!r}: {', '.join(writer.losses)}")
    follower = Follower(store)
    with follower.working() as alone:
        if alone:
            follower.drain()
