"""Who does what concerns a whole store, when several hosts share it: one host at a time, under a lease.

    STORE/lease/id                      tells this store from one that was in the same place before
    STORE/lease/DUTY/00000007.json      epoch 7 of a duty: who took it, and when by its own clock
    STORE/lease/DUTY/00000007.beat      a counter that the holder raises while it is there; or `released`

The highest epoch holds (`files.numbered`). Times of different hosts are never compared: whoever wants the lease watches
the counter, and takes the next epoch when it has not changed for `DEAD_SEC` of the watcher's own monotonic clock.

A lease saves work; it does not make anything safe. A holder that was suspended finds out at its next look, and not
before, that it holds no more. What it changes until then is kept from doing harm where it is changed: parts are
replaced under numbers of their own (`merge`), plans of pruning (`prune`) and batches that are sent (`keeper.claims`)
too. The epoch is written into all of these.

Between processes of one host the host's own lock decides; whoever asks for the lease holds that. So a lease that
another process of this host has left behind can be taken at once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace._guard import logger
from rolltrace.errors import FormatError
from rolltrace.files import NumberedFiles, create_file, host_name, links_work, make_folder, read_page, replace_file
from rolltrace.store.layout import escape, unescape
from rolltrace.store.owners import is_running, other_hosts

DEAD_SEC = 120.0
"""How long a counter stands still before its host counts as dead: a network file system may show old content for a
minute."""
BEAT_SEC = 5.0
UPKEEP = "upkeep"
"""The duty of merging, pruning, retention and summaries."""
_QUIET_SEC = 600.0
"""After so long without a sign of life, by the clocks of this host and of the file system, people are told."""
_ALIVE_SEC = 30.0
_RELEASED = b"released"
_ID = re.compile(rb"[0-9a-f]{8}")


def sending_duty(backend: str) -> str:
    """The duty of sending to a backend."""
    return f"send-{backend}"


class _Claim(msgspec.Struct):
    host: str
    pid: int
    time_ns: int


class Holder(NamedTuple):
    """Who holds a lease, for people."""

    duty: str
    epoch: int
    host: str
    pid: int
    since_ns: int
    """When it was taken, by the clock of that host."""
    seen_sec: float
    """How long ago it gave a sign of life, as far as clocks agree."""
    looks_dead: bool


class Lease:
    """One duty of a store, as one process sees it: held, or watched."""

    def __init__(self, store: Path, duty: str = UPKEEP, *, dead_sec: float = DEAD_SEC) -> None:
        self.duty = duty
        self.epoch = 0
        """The epoch in which this process holds it; 0 if it does not."""
        self._store = store
        self._files = NumberedFiles(_folder(store, duty))
        self._dead_sec = dead_sec
        self._observed: tuple[int, bytes] | None = None
        self._observed_at = 0.0
        self._moved_at: float | None = None
        self._beat = 0
        self._beat_at = 0.0
        self._has_warned = False

    def hold(self) -> bool:
        """Keep the lease, or take it if nobody has it; whether this process holds it now.

        The caller holds the lock of this host that goes with the duty.
        """
        newest = self._files.newest()
        if self.epoch and self.epoch != newest:
            logger.warning("the lease %s went to another host: epoch %d, not %d", self.duty, newest, self.epoch)
            self.epoch = 0
        if self.epoch:
            self.keep()
            return True
        if newest and not self._is_free(newest):
            return False
        return self._take(newest + 1)

    def keep(self) -> None:
        """Show that this process is there, if it holds the lease."""
        now = time.monotonic()
        if self.epoch and now >= self._beat_at + BEAT_SEC:
            self._beat, self._beat_at = self._beat + 1, now
            self._show(b"%d" % self._beat)

    @property
    def looks_alive(self) -> bool:
        """Whether the counter of another host was seen to change not long ago."""
        return self._moved_at is not None and time.monotonic() - self._moved_at < _ALIVE_SEC

    def is_elsewhere(self) -> bool:
        """Whether another host holds it, and has not looked dead for long enough. Changes nothing."""
        newest = self._files.newest()
        return newest > 0 and self.epoch != newest and not self._is_free(newest)

    def release(self) -> None:
        """Let others have it at once."""
        if self.epoch:
            self._show(_RELEASED)
            self.epoch = 0

    def _show(self, content: bytes) -> None:
        try:
            replace_file(self._beat_file(self.epoch), content)
        except OSError as fault:  # a full disk, most likely: then others take us for dead
            logger.warning("the lease %s cannot be kept: %s", self.duty, fault)

    def _is_free(self, epoch: int) -> bool:
        beat = _read(self._beat_file(epoch))
        if beat == _RELEASED or _claim_of(self._files, epoch).host == host_name():
            return True
        now = time.monotonic()
        if self._observed != (epoch, beat):
            self._moved_at = now if self._observed is not None else None
            self._observed, self._observed_at = (epoch, beat), now
            return False
        return now - self._observed_at >= self._dead_sec

    def _take(self, epoch: int) -> bool:
        if other_hosts(self._store) and not links_work(self._files.folder):
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "the file system of %s has no hard links, so hosts cannot agree on who merges and sends; "
                    "nobody does: use a store of its own on each host",
                    self._store,
                )
            return False
        claim = _Claim(host_name(), os.getpid(), time.time_ns())
        if not self._files.add(epoch, msgspec.json.encode(claim)):
            return False
        self.epoch, self._beat, self._beat_at, self._observed = epoch, 0, time.monotonic(), None
        for older in self._files.numbers():
            if older < epoch:
                self._files.path(older).unlink(missing_ok=True)
        for beat in self._files.folder.glob("*.beat"):  # also one that a holder of old has written since
            if beat.stem.isdigit() and int(beat.stem) < epoch:
                beat.unlink(missing_ok=True)
        return True

    def _beat_file(self, epoch: int) -> Path:
        return self._files.path(epoch).with_suffix(".beat")


def store_id(store: Path) -> str:
    """Eight letters that no other store has, not even one that was in the same place before."""
    file = store / "lease" / "id"
    while True:
        try:
            identity = read_page(file)
            if not _ID.fullmatch(identity):
                raise FormatError(f"{file} is damaged; remove it, and another one is made")
            return identity.decode()
        except FileNotFoundError:
            make_folder(file.parent, durable=True)
            create_file(file, os.urandom(4).hex().encode(), durable=True)


def holders(store: Path) -> Iterator[Holder]:
    """Who holds the leases of a store."""
    try:
        duties = sorted(each.name for each in (store / "lease").iterdir() if each.is_dir())
    except OSError:
        return
    for name in duties:
        files = NumberedFiles(store / "lease" / name)
        epoch = files.newest()
        beat_file = files.path(epoch).with_suffix(".beat")
        if not epoch or _read(beat_file) == _RELEASED:
            continue
        claim = _claim_of(files, epoch)
        try:
            sign_of_life = (beat_file if beat_file.exists() else files.path(epoch)).stat().st_mtime
        except OSError:  # it has changed hands just now
            continue
        seen_sec = max(time.time() - sign_of_life, 0.0)
        gone = claim.host == host_name() and not is_running(claim.pid)
        yield Holder(
            unescape(name), epoch, claim.host, claim.pid, claim.time_ns, seen_sec, gone or seen_sec > _QUIET_SEC
        )


def _folder(store: Path, duty: str) -> Path:
    return store / "lease" / escape(duty)


def _read(file: Path) -> bytes:
    try:
        return read_page(file)
    except FileNotFoundError:
        return b""


def _claim_of(files: NumberedFiles, epoch: int) -> _Claim:
    try:
        return msgspec.json.decode(read_page(files.path(epoch)), type=_Claim)
    except (OSError, msgspec.MsgspecError):  # taken over just now, or not ours
        return _Claim("unknown", 0, 0)
