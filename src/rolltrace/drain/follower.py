"""Follow the journals of one host into the tables of a store: each record exactly once.

A round reads what is new in every journal, shapes it, writes the data files, saves what has to be remembered, and
commits: to each table with the positions that the journals have reached, to `trajectories` last. Then the journal files
that are read to their end are removed. A drainer that is killed anywhere in between leaves a state whose batch is
either in all tables or is read again, to exactly the same positions, and committed to those that lack it.

Two followers of the same journals are harmless: one of them gets a conflict, and takes up what the other has done.

`write_score` is for scores from outside of a rollout: they go through a journal of their own, and are drained at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace._guard import logger, strict
from rolltrace.drain.apart import NotTriedError, try_apart
from rolltrace.drain.attempts import Aside, Attempts
from rolltrace.drain.drain_state import (
    DrainState,
    JournalState,
    load_states,
    note_committed,
    remove_states,
    save_ended,
    save_state,
)
from rolltrace.drain.followed_journal import FollowedJournal
from rolltrace.drain.redact import Redactor
from rolltrace.drain.table_rows import Home, TableRows
from rolltrace.drain.text import Memory
from rolltrace.drain.transcripts import Transcripts
from rolltrace.errors import FormatError, OutageError, StoreError
from rolltrace.files import host_name
from rolltrace.flags import PLUGIN_GROUP
from rolltrace.journal import (
    HEADER_BYTES,
    JournalTail,
    JournalWriter,
    Position,
    drainer_lock,
    is_live,
    journal_folder,
    list_segments,
    own_folders,
    start_wanted_drainer,
    undrained_bytes,
)
from rolltrace.record import Coordinates, Event, encode_record
from rolltrace.tables import (
    FIRST_TABLE,
    LEADING_TABLE,
    ConflictError,
    LiveSnapshot,
    Place,
    TableStore,
    address_in,
    find_places,
    note_routes,
    publish_pass_rules,
    remove_live,
    write_live,
)
from rolltrace.text import tokenizers_pending

MAX_BATCH_BYTES = 32 << 20
"""How much of the journals one batch holds: a backlog is taken in several."""
MAX_HOMES = 100_000
LIVE_EVERY_SEC = 1.0
Progress = Callable[[int, int], None]


class Follower:
    """Drains the journals of this host into one store. One works at a time: see `working`."""

    def __init__(
        self,
        store: Path,
        *,
        redactor: Redactor | None = None,
        folders: frozenset[Path] | None = None,
    ) -> None:
        """Args:
        store: The store, by its local folder.
        redactor: Takes secrets out; by default as the store says.
        folders: The journals of another host that is gone; by default those of this host.
        """
        self.store = store
        self._folders = own_folders(store) if folders is None else folders
        # What is remembered is beside the journals, for whoever drains them next.
        self._folder = journal_folder(store) if folders is None else min(folders)
        self._tables = TableStore(address_in(store))
        self._redactor = redactor or Redactor.of(store)
        self._memory = Memory(store)
        self._aside = Aside(store)
        self._transcripts = Transcripts(self._redactor)
        self._journals: dict[str, FollowedJournal] = {}
        self._homes: dict[str, Home] = {}
        self._number = 0
        """Of the newest batch that is in all tables."""
        self._is_loaded = False
        self._attempts = Attempts.load(self._folder)
        self._foreign: set[Path] = set()
        self._live_at = 0.0
        self.batches = 0
        self.bytes = 0
        self.postponed = False
        """The last round left what waits for later, because a tokenizer that it needs is being written."""
        self._tables.prepare()

    @contextmanager
    def working(self) -> Iterator[bool]:
        """Hold the lock of this host and store; gives False if another drainer has it."""
        with drainer_lock(journal_folder(self.store)) as alone:
            yield alone
        if alone:
            start_wanted_drainer(self.store)

    def drain(self, progress: Progress = lambda done, total: None) -> int:
        """Commit all that the journals have now; how many batches that took. The caller holds the lock.

        Raises:
            OSError: the store cannot be written; what was not committed waits.
        """
        self.postponed = self._has_waiting() and tokenizers_pending(self.store)
        if self.postponed:
            return 0
        before = self.batches
        waiting = self.waiting_bytes() if progress is not None else 0
        done = self.bytes
        while True:
            try:
                if not self._is_loaded:
                    self._load()
                if not self._drain_batch():
                    break
            except ConflictError:  # another drainer was faster: go on from where it got to
                self._is_loaded = False
            except BaseException as error:  # what was shaped and not committed is to be read again
                self._is_loaded = False
                if isinstance(error, (OSError, OutageError)):
                    self._attempts.survive(self._folder)
                raise
            progress(min(self.bytes - done, waiting), waiting)
        publish_pass_rules(self.store)
        self._write_live()
        return self.batches - before

    def waiting_bytes(self) -> int:
        """How much the journals hold that is in no table, by the size of the records."""
        total = 0
        for folder in self._folders:
            for name, sequence in list_segments(folder):
                path = folder / f"{name}-{sequence:06d}.seg"
                journal = self._journals.get(name)
                position = Position() if journal is None else journal.tail.position
                if sequence >= position.sequence:
                    done = position.offset if sequence == position.sequence else 0
                    total += undrained_bytes(path) - max(0, done - HEADER_BYTES)
        return total

    def has_sealed_files(self) -> bool:
        """Whether a writer has gone on to another file, or has closed its journal: what is in it can be removed."""
        return any(
            not is_live(folder / f"{name}-{sequence:06d}.seg")
            for folder in self._folders
            for name, sequence in list_segments(folder)
        )

    @cached_property
    def _has_plugin_checks(self) -> bool:
        return bool(entry_points(group=PLUGIN_GROUP))

    def _has_waiting(self) -> bool:
        return any(list_segments(folder) for folder in self._folders)

    def _load(self, *, repeats: bool = True) -> None:
        """Take up what the last drainer left; the batch that it had begun, if it `repeats` that."""
        self._journals.clear()
        self._homes.clear()
        self._tables.refresh()
        self._is_loaded = True
        states = load_states(self._folder)
        base = next((state for state in states if self._is_in(LEADING_TABLE, state)), DrainState(0))
        begun = [state for state in states if state.number > base.number and self._is_in(FIRST_TABLE, state)]
        begun += [state for state in states if state.number == base.number + 1]
        pending = begun[0] if begun else None
        self._number = max((state.number for state in states), default=0) if pending is None else base.number
        self._transcripts.load(base.transcripts)
        self._homes.update({each: Home(Place(*home[:3]), home[3]) for each, home in base.homes.items()})
        self._find_journals(base.journals)
        if pending is not None and repeats:
            news = {name: each for name, each in pending.positions.items() if each != self._tables.position(name)}
            self._repeat(pending, news)

    def _is_in(self, table: str, state: DrainState) -> bool:
        """Whether a table has the batch of this state, and none that came later."""
        position = self._tables.table(table).position
        return all(position(name) == each for name, each in state.positions.items())

    def _find_journals(self, saved: Mapping[str, JournalState] | None = None) -> None:
        """Look for journals that are new."""
        for folder in self._folders:
            for name in dict.fromkeys(segment.journal for segment in list_segments(folder)):
                if name in self._journals:
                    continue
                state = (saved or {}).get(name)
                if state is None:
                    state = JournalState(self._tables.position(name))
                tail = JournalTail(folder, name, Position.decode(state.position))
                self._journals[name] = FollowedJournal(
                    tail, state, self._redactor, self._memory, self._transcripts, self._aside
                )

    def _repeat(self, state: DrainState, positions: Mapping[str, int]) -> None:
        """Read the batch again that was begun, and commit it to the tables that lack it."""
        rows = TableRows(self._homes)
        for name, journal in list(self._journals.items()):
            if name in positions:
                until = Position.decode(positions[name])
                while not journal.is_over and (stretch := journal.read(MAX_BATCH_BYTES, until)) is not None:
                    journal.shape(stretch, rows)
        self._commit(rows, positions, state.number, is_repeated=True)

    def _drain_batch(self) -> bool:
        """Commit some of what is new; whether there was anything."""
        self._find_journals()
        ready = [journal for journal in self._journals.values() if journal.has_news()]
        if not ready:
            self._forget_over()
            return False
        self._attempts.begin(self._folder)
        rows, positions, left = TableRows(self._homes), dict[str, int](), MAX_BATCH_BYTES
        for journal in ready:
            if self._attempts.are_many and not self._is_harmless(journal):
                continue
            try:
                left -= self._shape_journal(journal, rows, left)
            except FormatError as error:
                self._leave_alone(journal, error)
                journal.skip_segment()
            except Exception as error:
                if strict() or isinstance(error, OSError):
                    raise
                logger.exception("draining %s", journal.shaping)
                self._attempts.fail(journal.shaping, type(error).__name__)
                self._is_loaded = False  # what was shaped of the batch is not whole
                return True
            if journal.position != journal.committed:
                positions[journal.tail.name] = journal.position.encode()
            if left <= 0 or self._attempts.are_many:
                break
        if not positions:
            self._attempts.clear(self._folder)
            return False
        self._commit(rows, positions, self._number + 1)
        self._attempts.clear(self._folder)
        return True

    def _shape_journal(self, journal: FollowedJournal, rows: TableRows, max_bytes: int) -> int:
        """Shape what is new in a journal, up to so much; how much that was."""
        size = 0
        while size < max_bytes and (stretch := journal.read(max_bytes - size)) is not None:
            if journal.is_new:
                note_routes(self.store, self._redactor.segment(stretch.segment).meta)
            journal.shape(stretch, rows)
            size += max(len(stretch.segment.data), 1)
            if journal.is_over or self._attempts.are_many:
                break
        self.bytes += size
        return size

    def shape_next(self, name: str) -> None:
        """Shape the next records of a journal, and forget them: whoever asks wants to know if that can be done."""
        self._load(repeats=False)
        journal = self._journals.get(name)
        if journal is not None:
            self._shape_journal(journal, TableRows(self._homes), MAX_BATCH_BYTES)

    def _is_harmless(self, journal: FollowedJournal) -> bool:
        """Whether the next records of a journal can be shaped without taking the process down."""
        try:
            problem = try_apart(self.store, journal.tail.folder, journal.tail.name)
        except NotTriedError as error:
            logger.warning("draining %s is put off: %s", journal.segment, error)
            return False
        if problem is None:
            return True
        self._attempts.fail(journal.segment, problem)
        return False

    def _commit(
        self,
        rows: TableRows,
        positions: Mapping[str, int],
        number: int,
        *,
        is_repeated: bool = False,
    ) -> None:
        if ids := rows.places_of_scores():
            rows.move_scores({each: Home(place) for each, place in find_places(self._tables, ids).items()})
        files = rows.write_files(self._tables.address)
        self._homes.update(rows.new_homes)
        while len(self._homes) > MAX_HOMES:
            self._homes.pop(next(iter(self._homes)))
        save_state(self._folder, self._state(number))
        checks = next((journal.checks for journal in self._journals.values()), "")
        if rows.ended and self._has_plugin_checks:
            save_ended(self._folder, positions, checks, rows.ended)
        self._tables.commit_batch(files, positions, is_repeated=is_repeated)
        self._number = number
        self.batches += 1
        note_committed(self._folder, {name: journal.position.encode() for name, journal in self._journals.items()})
        for name in positions:
            if name in self._journals:
                self._journals[name].release()
        self._forget_over()

    def _state(self, number: int) -> DrainState:
        transcripts = self._transcripts.save()
        open_ids = {each for journal in self._journals.values() for each in journal.open_ids()}
        homes = {
            each: (*self._homes[each].place, self._homes[each].is_group)
            for each in (*open_ids, *transcripts)
            if each in self._homes
        }
        journals = {name: journal.save() for name, journal in self._journals.items()}
        return DrainState(number, journals, transcripts, homes)

    def _forget_over(self) -> None:
        for name in [name for name, journal in self._journals.items() if journal.is_over or journal.is_gone()]:
            self._journals.pop(name).release()
        if not self._journals and not self._has_waiting():
            remove_states(self._folder)
            self._number = 0

    def _leave_alone(self, journal: FollowedJournal, error: FormatError) -> None:
        if journal.segment not in self._foreign:
            self._foreign.add(journal.segment)
            logger.warning("left alone: %s", error)

    def _write_live(self) -> None:
        """Say what runs here now, about once a second."""
        now = time.monotonic()
        if now < self._live_at:
            return
        self._live_at = now + LIVE_EVERY_SEC
        writers = [writer for journal in self._journals.values() if (writer := journal.live_writer()) is not None]
        if not writers:
            remove_live(self.store, host_name())
            return
        ops = [op for journal in self._journals.values() for op in journal.live_ops(self._homes)]
        write_live(self.store, LiveSnapshot(host_name(), time.time_ns(), writers, ops, self.waiting_bytes()))


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
