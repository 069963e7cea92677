"""Give pending trajectories to one backend, batch by batch, and remember each batch before the next.

At least once: a kill between the vendor's answer and our note repeats a batch, under the same ids. No host sends what
another one sends (`sending_hosts`). Batches are bounded in count and bytes. After a failure trajectories go one by one
for a while, so that one that the backend chokes on is found, and cannot stand in the way of the others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from rolltrace._guard import logger
from rolltrace.backends import Backend
from rolltrace.errors import BackendError, MissingExtraError
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Item, Pending
from rolltrace.keeper.position import HELD, REFUSED, SENT, Entry
from rolltrace.query import Read, Store, Trajectory, read_finished
from rolltrace.tables import save_links

MAX_TRAJECTORIES = 32
"""In one batch."""
MAX_BYTES = 8 << 20
"""In one batch, as JSON; a single larger trajectory is a batch of its own."""
_MAX_FAILURES = 5
_MAX_REASON_CHARS = 500

Progress = Callable[[int, int], None]
STOPS = (BackendError, MissingExtraError)
"""It cannot work until somebody does something."""


class Sender:
    """Sends to one backend. The caller holds the outbox's lock."""

    def __init__(self, store: Store, outbox: Outbox, backend: Backend, *, by_hand: bool = False) -> None:
        self._by_hand = by_hand
        self._store = store
        self._outbox = outbox
        self._position = outbox.position
        self._backend = backend
        self._max_batch = MAX_TRAJECTORIES
        self._failures: Counter[str] = Counter()
        """How often a trajectory failed alone."""
        self._worked_since: set[str] = set()
        """Those after whose failure others went through: it is not the vendor that is down."""
        self._typical_bytes = MAX_BYTES // 8
        self.sent = self.updated = self.refused = self.held_back = 0
        """How many trajectories, since it was made."""
        self.left = Pending([], [], 0, 0)
        """What the last `send` did not come to, because of an outage or its deadline."""
        self.calling_since: float | None = None
        """When the backend was called, on the monotonic clock; None if it is not at work."""

    def send(
        self,
        pending: Pending,
        *,
        max_bytes_per_day: int | None = None,
        deadline: float = float("inf"),
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Send what is pending, new ones first. What was not dealt with is in `left` then.

        Args:
            pending: What there is to do.
            max_bytes_per_day: When so much was sent today, the rest is held back.
            deadline: On the monotonic clock; no batch begins after it.
            progress: Called with how many are done, and how many there are.

        Raises:
            BackendError, MissingExtraError: as from the backend.
            Exception: an outage. What went through before it is remembered.
        """
        done: set[str] = set()
        try:
            for items, call in ((pending.send, self._send), (pending.update, self._update)):
                for batch in self._batches(items):
                    progress(len(done), pending.total)
                    if time.monotonic() > deadline:
                        return
                    if call == self._update or not self._over_budget(batch, max_bytes_per_day):
                        self._give(batch, call)
                    done.update(item.trajectory_id for item in batch)
            progress(len(done), pending.total)
        finally:
            self.left = pending.without(done)

    def _batches(self, items: list[Item]) -> Iterator[list[Item]]:
        """The items of one step after the other, about as many at a time as fit; suspects last, and alone."""
        suspects = [item for item in items if item.trajectory_id in self._failures]
        rest = [item for item in items if item.trajectory_id not in self._failures] if suspects else items
        for _, group in groupby(rest, key=lambda item: item.step):
            of_step = list(group)
            at = 0
            while at < len(of_step):
                count = max(1, min(self._max_batch, MAX_BYTES // self._typical_bytes))
                yield of_step[at : at + count]
                at += count
        for item in sorted(suspects, key=lambda item: self._failures[item.trajectory_id]):
            yield [item]

    def _over_budget(self, batch: list[Item], limit: int | None) -> bool:
        """Whether today's budget is used up; then these are held back, unread."""
        if limit is None or self._position.bytes_today < limit:
            return False
        self._position.add(Entry(HELD, item.trajectory_id, item.records) for item in batch)
        self.held_back += len(batch)
        return True

    def _give(self, batch: list[Item], call: Callable[[list[Item], list[Read]], None]) -> None:
        broken: dict[str, Exception] = {}
        ids = [item.trajectory_id for item in batch]
        reads = list(read_finished(self._store, ids, batch[0].step, on_fault=broken.__setitem__))
        self._refuse_broken([item for item in batch if item.trajectory_id in broken], broken, call == self._update)
        there = {each.trajectory.trajectory_id for each in reads}
        batch = [item for item in batch if item.trajectory_id in there]  # the others were removed meanwhile
        if not reads:
            return
        self._typical_bytes = max(1, (self._typical_bytes + sum(each.bytes for each in reads) // len(reads)) // 2)
        for some, some_reads in _bounded(batch, reads):
            try:
                self.calling_since = time.monotonic()
                call(some, some_reads)
            except STOPS:
                raise
            except Exception as error:
                self._failed(some, error)
            else:
                self._went_through(some)
            finally:
                self.calling_since = None

    def _refuse_broken(self, items: list[Item], broken: dict[str, Exception], are_there: bool) -> None:
        """Those that cannot be read from the store. One that the vendor has already stays as it is there."""
        for item in items:
            error = broken[item.trajectory_id]
            reason = f"cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]
            logger.warning("refused: %s: %s", item.trajectory_id, reason)
            entry = Entry(REFUSED, item.trajectory_id, item.records, reason=reason)
            self._position.add(
                [Entry(SENT, item.trajectory_id, item.records, item.scored_ns)] if are_there else [entry]
            )
            self.refused += not are_there

    def _send(self, batch: list[Item], reads: list[Read]) -> None:
        refused = {each.trajectory_id: each.reason for each in self._backend.send([each.trajectory for each in reads])}
        for trajectory_id, reason in refused.items():
            logger.warning("refused: %s: %s", trajectory_id, reason)
        entries = [
            Entry(REFUSED, item.trajectory_id, item.records, reason=refused[item.trajectory_id][:_MAX_REASON_CHARS])
            if item.trajectory_id in refused
            else self._sent(item, each, each.bytes)
            for item, each in zip(batch, reads)
        ]
        self._position.add(entries)
        self._save_links([each.trajectory for each in reads if each.trajectory.trajectory_id not in refused])
        self.refused += len(refused)
        self.sent += len(batch) - len(refused)

    def _save_links(self, trajectories: list[Trajectory]) -> None:
        """Remember where the vendor shows them. That they were sent does not depend on it."""
        links = getattr(self._backend, "links", None)
        if links is None:
            return
        for key, first in {(each.project, each.experiment, each.run): each for each in trajectories}.items():
            try:
                save_links(self._store.path, self._outbox.backend, *key, links(first))
            except Exception:
                logger.warning("where %s shows %s is not known", self._outbox.backend, key[1], exc_info=True)

    def _sent(self, item: Item, each: Read, size: int = 0) -> Entry:
        # At least the score that we knew of, perhaps one that came since.
        newest = max([item.scored_ns, *(int(score["time_ns"]) for score in each.trajectory.scores)])
        return Entry(SENT, item.trajectory_id, item.records, newest, size, by_hand=self._by_hand)

    def _update(self, batch: list[Item], reads: list[Read]) -> None:
        self._backend.update([each.trajectory for each in reads])
        self._position.add(self._sent(item, each) for item, each in zip(batch, reads))
        self.updated += len(batch)

    def _went_through(self, batch: list[Item]) -> None:
        for item in batch:
            self._failures.pop(item.trajectory_id, None)
            self._worked_since.discard(item.trajectory_id)
        self._worked_since.update(self._failures)
        self._max_batch = min(MAX_TRAJECTORIES, 2 * self._max_batch)

    def _failed(self, batch: list[Item], error: Exception) -> None:
        """Raise it, unless it is this one trajectory's fault: then it counts as refused."""
        self._max_batch = 1
        if len(batch) > 1:  # one of them, perhaps: from now on each goes alone, whatever new ones come
            self._failures.update({item.trajectory_id: 0 for item in batch})
            raise error
        ((trajectory_id, _, records, _),) = batch
        self._failures[trajectory_id] += 1
        if self._failures[trajectory_id] < _MAX_FAILURES or trajectory_id not in self._worked_since:
            raise error
        logger.error("given up: %s fails while others go through", trajectory_id, exc_info=error)
        reason = f"failed {_MAX_FAILURES} times while others went through: {type(error).__name__}: {error}"
        self._position.add([Entry(REFUSED, trajectory_id, records, reason=reason[:_MAX_REASON_CHARS])])
        self._failures.pop(trajectory_id)
        self._worked_since.discard(trajectory_id)
        self.refused += 1


def _bounded(batch: Sequence[Item], reads: Sequence[Read]) -> Iterator[tuple[list[Item], list[Read]]]:
    """The batch in pieces that are not too large."""
    items: list[Item] = []
    piece: list[Read] = []
    for item, each in zip(batch, reads):
        if items and sum(one.bytes for one in piece) + each.bytes > MAX_BYTES:
            yield items, piece
            items, piece = [], []
        items.append(item)
        piece.append(each)
    if items:
        yield items, piece
