"""Which host sends which trajectories to a backend, decided before they are sent.

    STORE/outbox/BACKEND/claims/00000042.json     a batch that a host is about to send

Claims are numbered (`files.numbered`). A sender looks at the newest number, then at what every host has sent and
claimed, and claims a batch under the next number before it gives it to the backend. If that number is taken, another
host has claimed something since, perhaps the same: nothing is sent, and it looks again. So a sender that was suspended
at any moment sends at most the batch that it has claimed, which no other host touches.

Of each host its newest claim counts: it sends one batch after the other, under its own lock. Of what is in it and not
noted as sent, nobody else knows whether it was or will be. When its host works again, that one finds out. When the host
has not been heard of for an hour, by the times of files, others send it, under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rolltrace._guard import logger
from rolltrace.files import NumberedFiles, host_name, read_page

if TYPE_CHECKING:
    from rolltrace.keeper.pending import Item

_GIVEN_UP_SEC = 3600.0
_TRIES = 20


class Overtaken(Exception):
    """Another host has claimed something since we looked: look again."""


class Claimed(NamedTuple):
    """How much there was of a trajectory that another host is about to send, or has sent."""

    records: int
    scored_ns: int


class _Claim(msgspec.Struct):
    host: str
    epoch: int
    """Of the lease under which it is sent; 0 if somebody sends it by hand."""
    items: list[tuple[str, int, int]]


class Claims:
    """The claims on one backend, as one sender sees them. It holds the outbox's lock when it takes any."""

    def __init__(self, folder: Path) -> None:
        self._files = NumberedFiles(folder)
        self._base = 0
        self._has_items = False
        self.epoch = 0
        """Of the sender's lease."""
        self.theirs: dict[str, Claimed] = {}
        """What other hosts have claimed."""

    def look(self) -> None:
        """Find out what others have claimed. Look at what was sent after this, not before."""
        numbers = self._files.numbers()
        self._base = max(numbers, default=0)
        latest: dict[str, tuple[int, _Claim]] = {}
        for number in numbers:
            try:
                claim = msgspec.json.decode(read_page(self._files.path(number)), type=_Claim)
            except (OSError, msgspec.MsgspecError):  # followed by another since, or not ours
                continue
            latest[claim.host] = number, claim
        latest.pop(host_name(), None)
        self.theirs = {
            trajectory_id: Claimed(records, scored_ns)
            for number, claim in latest.values()
            if claim.items and not self._is_given_up(number)
            for trajectory_id, records, scored_ns in claim.items
        }

    def _is_given_up(self, number: int) -> bool:
        """By the newest time that the file system gave to a claim, so that no two clocks are compared."""
        try:
            ages = [self._files.path(each).stat().st_mtime for each in (self._base, number)]
        except OSError:
            return False
        return ages[0] - ages[1] > _GIVEN_UP_SEC

    def take(self, items: Iterable[Item]) -> None:
        """Claim a batch, which may be sent then.

        Raises:
            Overtaken: another host has claimed something since `look`.
        """
        rows = [(item.trajectory_id, item.records, item.scored_ns) for item in items]
        if not self._add(self._base + 1, rows):
            raise Overtaken

    def release(self) -> None:
        """Give back what was claimed and not sent: the call is over, so others may try."""
        try:
            for _ in range(_TRIES if self._has_items else 0):
                if self._add(self._files.newest() + 1, []):
                    return
        except OSError as fault:
            logger.warning("what was about to be sent stays claimed: %s", fault)

    def _add(self, number: int, rows: list[tuple[str, int, int]]) -> bool:
        if not self._files.add(number, msgspec.json.encode(_Claim(host_name(), self.epoch, rows))):
            return False
        self._base, self._has_items = number, bool(rows)
        for older in self._files.numbers():
            if older < number and self._is_mine(older):
                self._files.path(older).unlink(missing_ok=True)
        return True

    def _is_mine(self, number: int) -> bool:
        try:
            claim = msgspec.json.decode(read_page(self._files.path(number)), type=_Claim)
        except (OSError, msgspec.MsgspecError):
            return False
        return claim.host == host_name()
