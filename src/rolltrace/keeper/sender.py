"""Give pending trajectories to one backend, batch by batch, and remember each batch before the next.

At least once: a kill between the vendor's answer and our note repeats a batch, under the same ids. Batches are bounded
in count and bytes. After a failure trajectories go one by one for a while, so that one that the backend chokes on is
found, and cannot stand in the way of the others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

from rolltrace._guard import logger
from rolltrace.backends import Backend
from rolltrace.errors import BackendError, MissingExtraError
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Item, Pending
from rolltrace.keeper.position import HELD, REFUSED, SENT, Entry
from rolltrace.query import Store, Trajectory, read_finished, sizes
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
        """Send what is pending, new ones first, until the deadline (on the monotonic clock). What was not dealt with
        is in `left` then; what is over the day's budget is held back.

        Raises:
            BackendError, MissingExtraError: as from the backend.
            Exception: an outage. What went through before it is remembered.
        """
        done: set[str] = set()
        try:
            for items, is_update in ((pending.send, False), (pending.update, True)):
                for chunk in self._chunks(items):
                    progress(len(done), pending.total)
                    if time.monotonic() > deadline:
                        return
                    for batch in self._give_chunk(chunk, is_update, None if is_update else max_bytes_per_day):
                        done.update(item.trajectory_id for item in batch)
            progress(len(done), pending.total)
        finally:
            self.left = pending.without(done)

    def _chunks(self, items: list[Item]) -> Iterator[list[Item]]:
        """The items of one step after the other, not too many at a time; suspects last, and alone."""
        suspects = [item for item in items if item.trajectory_id in self._failures]
        rest = [item for item in items if item.trajectory_id not in self._failures] if suspects else items
        for _, group in groupby(rest, key=lambda item: item.step):
            of_step = list(group)
            while of_step:
                chunk, of_step = of_step[: self._max_batch], of_step[self._max_batch :]
                yield chunk
        for item in sorted(suspects, key=lambda item: self._failures[item.trajectory_id]):
            yield [item]

    def _give_chunk(self, chunk: list[Item], is_update: bool, max_bytes_per_day: int | None) -> Iterator[list[Item]]:
        """Give some items to the backend, in batches that are not too large; each batch that is dealt with. When the
        day's budget is used up, the rest is held back, unread."""
        size_of: dict[str, int] = {}
        while chunk:
            limit = MAX_BYTES
            if max_bytes_per_day is not None:
                limit = min(limit, max_bytes_per_day - self._position.bytes_today)
            if limit <= 0:
                self._position.add(Entry(HELD, item.trajectory_id, item.records) for item in chunk)
                self.held_back += len(chunk)
                yield chunk
                return
            size_of = size_of or sizes(self._store, [item.trajectory_id for item in chunk])
            count = total = 0
            for item in chunk:
                total += size_of.get(item.trajectory_id, 0)
                if count and total > limit:
                    break
                count += 1
            batch, chunk = chunk[:count], chunk[count:]
            self._give(batch, size_of, is_update)
            yield batch

    def _give(self, batch: list[Item], size_of: dict[str, int], is_update: bool) -> None:
        broken: dict[str, Exception] = {}
        ids = [item.trajectory_id for item in batch]
        read = {
            each.trajectory_id: each
            for each in read_finished(self._store, ids, batch[0].step, on_fault=broken.__setitem__)
        }
        self._refuse_broken([item for item in batch if item.trajectory_id in broken], broken, is_update)
        batch = [item for item in batch if item.trajectory_id in read]  # the others were removed meanwhile
        trajectories = [read[item.trajectory_id] for item in batch]
        if not batch:
            return
        refused: dict[str, str] = {}
        try:
            self.calling_since = time.monotonic()
            if is_update:
                self._backend.update(trajectories)
            else:
                refused = {each.trajectory_id: each.reason for each in self._backend.send(trajectories)}
        except STOPS:
            raise
        except Exception as error:
            self._note_failure(batch, error)
            return
        finally:
            self.calling_since = None
        self._note_success(batch, read, refused, size_of, is_update)

    def _note_success(
        self,
        batch: list[Item],
        read: dict[str, Trajectory],
        refused: dict[str, str],
        size_of: dict[str, int],
        is_update: bool,
    ) -> None:
        entries = []
        for item in batch:
            trajectory_id, records = item.trajectory_id, item.records
            if trajectory_id in refused:
                entries.append(self._refusal(item, refused[trajectory_id]))
                continue
            # At least the score that we knew of, perhaps one that came since.
            newest = max([item.scored_ns, *(int(score["time_ns"]) for score in read[trajectory_id].scores)])
            size = 0 if is_update else size_of.get(trajectory_id, 0)
            entries.append(Entry(SENT, trajectory_id, records, newest, size, by_hand=self._by_hand))
        self._position.add(entries)
        if is_update:
            self.updated += len(batch)
        else:
            self._save_links([each for each in read.values() if each.trajectory_id not in refused])
            self.sent += len(batch) - len(refused)
        for item in batch:
            self._failures.pop(item.trajectory_id, None)
            self._worked_since.discard(item.trajectory_id)
        self._worked_since.update(self._failures)
        self._max_batch = min(MAX_TRAJECTORIES, 2 * self._max_batch)

    def _refusal(self, item: Item, reason: str) -> Entry:
        logger.warning("refused: %s: %s", item.trajectory_id, reason)
        self.refused += 1
        return Entry(REFUSED, item.trajectory_id, item.records, reason=reason[:_MAX_REASON_CHARS])

    def _refuse_broken(self, items: list[Item], broken: dict[str, Exception], is_update: bool) -> None:
        """Those that cannot be read from the store. One that the vendor has already stays as it is there."""
        for item in items:
            error = broken[item.trajectory_id]
            reason = f"cannot be read: {type(error).__name__}: {error}"
            sent = Entry(SENT, item.trajectory_id, item.records, item.scored_ns)
            self._position.add([sent if is_update else self._refusal(item, reason)])

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

    def _note_failure(self, batch: list[Item], error: Exception) -> None:
        """Raise it, unless it is due to this one trajectory: then that counts as refused."""
        self._max_batch = 1
        if len(batch) > 1:  # one of them, perhaps: from now on each goes alone, whatever new ones come
            self._failures.update({item.trajectory_id: 0 for item in batch})
            raise error
        (item,) = batch
        self._failures[item.trajectory_id] += 1
        if self._failures[item.trajectory_id] < _MAX_FAILURES or item.trajectory_id not in self._worked_since:
            raise error
        reason = f"failed {_MAX_FAILURES} times while others went through: {type(error).__name__}: {error}"
        self._position.add([self._refusal(item, reason)])
        self._failures.pop(item.trajectory_id)
        self._worked_since.discard(item.trajectory_id)
