"""What is running right now: a small file per host, replaced about once a second by the drainer there.

    STORE/live/HOST.json

It is judged where and when it is written: ages are as of `time_ns`, by the clock of the host that wrote the records.
Of a store on object storage it is an object there, replaced every two seconds at most.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from rolltrace._address import address_in
from rolltrace._guard import logger
from rolltrace.errors import RolltraceError
from rolltrace.tables.storage import read_shared, remove_shared, write_shared

UPLOAD_EVERY_SEC = 2.0
_FOLDER = "live"
_REMOVED = -1.0
_next_upload: dict[Path, float] = {}
"""Of stores on object storage: when their snapshot may be written again, or that this process has removed it."""


class LiveWriter(msgspec.Struct, omit_defaults=True):
    """A process that records."""

    worker: str
    project: str
    experiment: str
    run: str | None = None
    pid: int = 0


class LiveOp(msgspec.Struct, omit_defaults=True):
    """An op that has begun and not ended. Coordinates as in the tables."""

    trajectory_id: str
    op_id: int
    parent_id: int | None
    name: str
    kind: str
    start_ns: int
    project: str
    experiment: str
    step: int | None
    sample_index: str | None
    sample_number: int | None
    rollout_n: int | None
    validate: bool
    run: str | None
    worker: str


class LiveSnapshot(msgspec.Struct, omit_defaults=True):
    """What one host is doing."""

    host: str
    time_ns: int
    """When it was written."""
    writers: list[LiveWriter] = []
    ops: list[LiveOp] = []
    waiting_bytes: int = 0
    """How much of the journals was not committed then."""


def write_live(store: Path, snapshot: LiveSnapshot) -> None:
    """Replace the snapshot of a host."""
    address, now = address_in(store), time.monotonic()
    if address.folder is None and now < _next_upload.get(store, 0.0):
        return
    _next_upload[store] = now + UPLOAD_EVERY_SEC
    try:
        write_shared(address, _path(snapshot.host), msgspec.json.encode(snapshot))
    except RolltraceError as error:  # an outage: the next one is as good
        logger.info("the live snapshot is not written: %s", error)


def remove_live(store: Path, host: str) -> None:
    """Nothing runs on a host any more, or nobody drains there."""
    address = address_in(store)
    if address.folder is None and _next_upload.get(store) == _REMOVED:
        return
    try:
        remove_shared(address, _path(host))
        _next_upload[store] = _REMOVED
    except RolltraceError as error:
        logger.info("the live snapshot is not removed: %s", error)


def read_live(store: Path) -> list[LiveSnapshot]:
    """The snapshots of all hosts; those that cannot be read are left out."""
    snapshots = []
    for content in read_shared(address_in(store), _FOLDER).values():
        with suppress(ValueError, msgspec.MsgspecError):
            snapshots.append(msgspec.json.decode(content, type=LiveSnapshot))
    return snapshots


def _path(host: str) -> str:
    return f"{_FOLDER}/{host}.json"
