"""What a store needs besides draining: steps that have settled become one file per table, its retention policy is
applied, old files go.

It happens in a thread, because large steps take longer than a batch may wait, and takes a share of the time while there
is something to drain. Every host does it: each piece of work is one commit per table, and whoever comes second finds a
conflict or nothing to do.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rolltrace._guard import caught, logger
from rolltrace.errors import RolltraceError, StoreError
from rolltrace.files import host_tag, replace_file
from rolltrace.journal import journal_files, journal_folder, own_folders
from rolltrace.keeper.policy import policy_changed_ns
from rolltrace.tables import (
    MAX_BATCH_FILES,
    TABLE_SCHEMAS,
    Place,
    TableStore,
    address_in,
    compact_place,
    hidden_files,
    merge_batches,
    moving_files,
    place_late_scores,
    waiting_scores,
)

_SHARE = 0.2  # of the time, while there is something to drain
_LOOK_EVERY_SEC = 10.0
_LOOK_AT_OTHERS_SEC = 60.0  # though nothing was drained here: another host may have brought something, or died
_TURN_SEC = 2.0  # no piece of work begins later than this after a turn began
# How long nothing has come to a step before it counts as settled: usually (longer for a large one), when a later step
# of the experiment has begun, and when nothing is recorded here, so that there is time.
_QUIET_SEC, _FINISHED_SEC, _IDLE_SEC = 30.0, 10.0, 4.0
_BYTES_PER_QUIET_SEC = 4 << 20
_STAY_SEC = 60.0  # for steps that have not settled, with nothing to drain
_RETRY_SEC = 30.0  # after a failure, such as a full disk
_SWEEP_EVERY_SEC = 300.0
_LATE_SCORES_SEC = 60.0  # until scores without a step are looked up again, though no other ones have come
_UNFINISHED = re.compile(
    r"\..+\.(?P<pid>\d+)(?:\.(?P<host>h[0-9a-f]{8}))?\.new"
    r"|\d+T\d+-(?P<writer>\d+)-[0-9a-f]+(?:-(?P<writer_host>h[0-9a-f]{8}))?-\d+\.new"
)
"""Names of files, and of segments of journals, that are being written: they tell who writes them."""
_YOUNGEST_SEC, _OLD_SEC = 60.0, 3600.0
VACUUM_HOURS = 1
"""How long files that a commit has removed stay, for those who are reading them; and how often that is looked after."""


class Upkeep:
    """The upkeep of one store, as the drainer of one host does it."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._tables = TableStore(address_in(store))
        self._thread: threading.Thread | None = None
        self._news_at = time.monotonic()
        self._next_at = self._sweep_at = self._late_scores_at = 0.0
        self._has_more = True
        """There was news, or more to do than one turn allows, or there are steps that have not settled."""
        self._is_behind = False
        """There was more to do than one turn allows."""
        self._scores: list[str] = []
        """The files of scores without a step that were looked at last."""
        self._damaged: dict[Place, int] = {}
        """Steps that could not be compacted, and how many files they had."""
        self._policy_ns: int | None = None

    @property
    def waits(self) -> bool:
        """Something is going on, or will soon be to be done: a drainer that is idle stays."""
        return self._is_busy or self._is_due

    @property
    def _is_due(self) -> bool:
        return (self._has_more or self._is_behind) and time.monotonic() - self._news_at < _STAY_SEC

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def _is_idle(self) -> bool:
        return time.monotonic() - self._news_at > _IDLE_SEC

    def turn(self, *, news: bool) -> None:
        """Begin some of what is due, if there is anything. `news`: something was drained, and more may follow."""
        if news:
            self._news_at, self._has_more = time.monotonic(), True
        policy_ns = policy_changed_ns(self._store)
        if policy_ns != self._policy_ns:
            self._policy_ns, self._is_behind = policy_ns, True
        if not self._is_busy and time.monotonic() >= self._next_at:
            self._thread = threading.Thread(target=self._run, name="rolltrace-upkeep", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is being done."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        wait = 0.0
        try:
            self.work()
        except (OSError, RolltraceError) as error:  # a full disk, or a bucket that does not answer
            logger.warning("upkeep of the store is postponed: %s", error)
            wait = _RETRY_SEC
        except Exception:
            caught("upkeep")
            wait = _RETRY_SEC
        took = time.monotonic() - begun
        if not self._is_idle:
            wait = max(wait, took * (1 - _SHARE) / _SHARE, 0.5 if self._is_behind else _LOOK_EVERY_SEC)
        elif not self._is_due:
            wait = max(wait, _LOOK_AT_OTHERS_SEC)
        else:
            wait = max(wait, 0.5 if self._is_behind else _IDLE_SEC / 2)
        self._next_at = time.monotonic() + wait

    def work(self) -> None:
        """Do some of what is due."""
        begun = time.monotonic()
        self._has_more = self._is_behind = False
        if begun >= self._sweep_at:
            self._sweep_at = begun + _SWEEP_EVERY_SEC
            for path in abandoned_files(self._store):
                if self._store / "journal" not in path.parents or path.parent in own_folders(self._store):
                    path.unlink(missing_ok=True)
        for schema in reversed(TABLE_SCHEMAS):
            self._tables.table(schema.name).refresh()
        self._place_late_scores(begun)
        self._is_behind = self._compact(begun + _TURN_SEC)
        if not self._is_behind and self._policy_ns is not None:
            from rolltrace.keeper.retention import apply_policy  # loads the query side: only where it is needed

            self._is_behind = apply_policy(self._store)
        if not self._is_behind:
            self._vacuum()

    def _place_late_scores(self, now: float) -> None:
        import duckdb

        files = [file.path for file in waiting_scores(self._tables)]
        if files and (files != self._scores or now >= self._late_scores_at):
            self._late_scores_at = now + _LATE_SCORES_SEC
            try:
                place_late_scores(self._tables)
            except (duckdb.Error, StoreError) as error:  # a damaged file: the other work goes on
                logger.warning("scores without a step wait: %s", error)
            files = [file.path for file in waiting_scores(self._tables)]
        self._scores = files

    def _compact(self, deadline: float) -> bool:
        """Compact steps that have settled, and merge small files of the others; whether there is more to do."""
        is_idle, now_ms = self._is_idle, time.time() * 1000
        for place, step in find_steps(self._tables).items():
            if self._damaged.get(place) == step.files:
                continue
            is_settled = step.is_settled(now_ms, is_idle=is_idle)
            self._has_more |= not is_settled
            if not is_settled and step.files < MAX_BATCH_FILES:
                continue
            if time.monotonic() > deadline:
                return True
            if (compact_place if is_settled else merge_batches)(self._tables, place).damaged:
                self._damaged[place] = len(moving_files(self._tables).get(place, ()))
        return False

    def _vacuum(self) -> None:
        mark = journal_folder(self._store) / "vacuum.done"
        if not mark.exists() or time.time() - mark.stat().st_mtime >= VACUUM_HOURS * 3600:
            vacuum(self._tables)
            replace_file(mark, b"")


def vacuum(tables: TableStore) -> int:
    """Remove the files that no version of the last hour has, and old entries of the logs; how many files that were."""
    count = 0
    for path in hidden_files(tables):
        path.unlink(missing_ok=True)
        count += 1
    for schema in TABLE_SCHEMAS:
        table = tables.table(schema.name)
        if table.refresh():
            count += len(table.vacuum(VACUUM_HOURS))
    return count


def settle_steps(store: Path) -> None:
    """Compact what a command has drained, at once: finished steps, and all of them if nobody records any more."""
    tables = TableStore(address_in(store))
    is_over = not journal_files(store)
    for place, step in find_steps(tables).items():
        if is_over or step.is_finished:
            compact_place(tables, place)


class MovingStep(NamedTuple):
    """A step that compaction has something to do for."""

    files: int
    newest_ms: int
    """When something came last."""
    settled_bytes: int
    """How much would be written again that was settled before."""
    is_finished: bool
    """A later step of the experiment has begun."""

    def is_settled(self, now_ms: float, *, is_idle: bool) -> bool:
        """Whether it is likely that no more comes. The clocks of hosts may differ."""
        quiet_sec = abs(now_ms - self.newest_ms) / 1000
        if is_idle:
            return quiet_sec > _IDLE_SEC
        return quiet_sec > (
            (_FINISHED_SEC if self.is_finished else _QUIET_SEC) + self.settled_bytes / _BYTES_PER_QUIET_SEC
        )


def find_steps(tables: TableStore) -> dict[Place, MovingStep]:
    """The steps that are moving, the oldest first."""
    newest_step: dict[tuple[str, str], int] = {}
    for file in tables.files("trajectories"):
        if file.place.step is not None:
            newest_step[file.place[:2]] = max(file.place.step, newest_step.get(file.place[:2], file.place.step))
    steps = {
        place: MovingStep(
            len(files),
            max((file.time_ms for file in files if not file.is_settled), default=0),
            sum(file.size_bytes for file in files if file.is_settled),
            place.step is not None and place.step < newest_step.get(place[:2], place.step),
        )
        for place, files in moving_files(tables).items()
    }
    return dict(sorted(steps.items(), key=lambda item: item[1].newest_ms))


def abandoned_files(store: Path, *, youngest_sec: float = _YOUNGEST_SEC) -> Iterator[Path]:
    """The hidden files that a killed process did not finish, and nobody will.

    One of this host counts when its process is gone; one of another host when it is old: if its writer was only
    suspended, it finds the file missing and does its work again. Data files are not among them: `vacuum` removes these.
    """
    folders = {store / name for name in ("tokenizers", "outbox", "live", "pass", "unreadable", "journal")}
    if store not in journal_folder(store).parents:
        folders.add(journal_folder(store))
    paths = [Path(folder, file) for top in folders for folder, _, files in os.walk(top) for file in files]
    for path in sorted([*store.glob(".*.new"), *paths]):
        match = _UNFINISHED.fullmatch(path.name)
        if match is None:
            continue
        try:
            age_sec = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if (match["host"] or match["writer_host"]) not in (None, host_tag()):
            is_abandoned = age_sec > _OLD_SEC
        else:  # a clock that was set back must not keep it for ever
            is_over = age_sec > youngest_sec or age_sec < -_OLD_SEC
            is_abandoned = is_over and not _is_running(int(match["pid"] or match["writer"]))
        if is_abandoned:
            yield path


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
