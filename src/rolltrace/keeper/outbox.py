"""The folder of one backend: who sends, what was sent, what may be sent, and how it goes.

    STORE/outbox/BACKEND/routes/             which experiments go there (tables/routes.py)
    STORE/outbox/BACKEND/policy.json         which trajectories, and how much a day: `rolltrace sync --save`
    STORE/outbox/BACKEND/HOST/sent.jsonl     what a host gave it (keeper/position.py)
    STORE/outbox/BACKEND/HOST/state.json     how it goes, for people
    STORE/outbox/BACKEND/HOST/sender.log     what the sender's process and the vendor's library said

Each host sends what it has recorded, and writes only to its own folder. Nobody is elected: for a host of which nothing
was heard for an hour, and for what was imported, the first of those at work sends. Two that do so at the same time
repeat a batch at most, under the same ids. Of a store on object storage, hosts do not see each other's outboxes: each
sends its own.

On one host one sender works at a time, under a lock beside its journals. It gives the lock back between rounds, so that
`rolltrace sync` gets its turn.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from rolltrace._amounts import size_of
from rolltrace.errors import ConfigError
from rolltrace.files import file_lock, host_tag, make_folder, read_page, replace_file, tag_of
from rolltrace.journal import journal_folder
from rolltrace.keeper.clean_output import Cleaner
from rolltrace.keeper.position import REFUSED, SENT, Position
from rolltrace.query import compile_where
from rolltrace.tables import Route, address_in, outbox_folder, routes, sender_folder

NO_HOST = "none"
"""Stands for the host of imported trajectories, which no host recorded."""
_SILENT_SEC = 3600.0
_AT_WORK_SEC = 120.0


class SendingPolicy(msgspec.Struct, frozen=True):
    """What is sent without being asked for. What it holds back is counted, and sent by `rolltrace sync`."""

    where: str | None = None
    """Only trajectories that this filter finds."""
    max_bytes_per_day: int | None = None
    """Nothing more on a day (UTC) on which so much was sent, as JSON."""

    @classmethod
    def of(cls, where: str | None, max_bytes_per_day: str | int | None) -> SendingPolicy:
        """A policy that was checked.

        Raises:
            FilterError: the filter cannot be understood.
            ConfigError: the size cannot be.
        """
        compile_where(where)
        limit = None if max_bytes_per_day is None else size_of("--max-bytes-per-day", max_bytes_per_day)
        return cls(where, limit)


class State(msgspec.Struct):
    """How sending to one backend goes, as of `time_ns`."""

    sent: int = 0
    """Trajectories that the backend has."""
    updated: int = 0
    """How often newer scores of those were sent, since the sender started."""
    refused: int = 0
    """Trajectories that the backend will never take."""
    reasons: dict[str, int] = {}
    """Why, and how many."""
    held_back: int = 0
    """Trajectories that the policy holds back."""
    pending: int = 0
    """Trajectories and newer scores that wait to be sent."""
    bytes_today: int = 0
    last_error: str | None = None
    last_error_ns: int | None = None
    next_try_ns: int | None = None
    """When it will be tried again after an outage."""
    stopped: str | None = None
    """Why it is not tried again until somebody does something."""
    time_ns: int = 0

    def count(self, position: Position, pending: int, held_back: int) -> None:
        """Say how much was sent, and how much waits."""
        self.sent, self.refused = position.count(SENT), position.count(REFUSED)
        self.reasons = dict(position.reasons.most_common(10))
        self.bytes_today, self.pending, self.held_back = position.bytes_today, pending, held_back


class Outbox:
    """One backend's folder of one store."""

    def __init__(self, store: Path, backend: str) -> None:
        self.store = store
        self.backend = backend
        self.folder = outbox_folder(store, backend)
        self.own_folder = sender_folder(store, backend)
        self.cleaner = Cleaner(store)
        self.is_shared = address_in(store).folder is not None
        """Whether other hosts that use the store have this folder too."""
        self.position = Position(self.own_folder / "sent.jsonl", self._of_others, self.cleaner.text)

    def _of_others(self) -> list[Path]:
        """What other hosts gave to the backend."""
        return sorted({*self.folder.glob("*/sent.jsonl")} - {self.own_folder / "sent.jsonl"})

    def routes(self) -> set[Route]:
        """The experiments that go to this backend by themselves."""
        return routes(self.store, self.backend)

    def choose_hosts(self, waiting: Mapping[str, int]) -> set[str]:
        """The hosts whose trajectories this host sends, out of those that have something waiting, and the newest
        time in that."""
        chosen = waiting.keys() & {host_tag()}
        if self.is_shared and host_tag() == min({host_tag(), *self.others_at_work()}):
            heard_of, limit_ns = self.others_at_work(_SILENT_SEC), time.time_ns() - round(_SILENT_SEC * 1e9)
            for tag, newest_ns in waiting.items():
                if tag == NO_HOST or (newest_ns < limit_ns and tag not in heard_of):
                    chosen.add(tag)
        return chosen

    def others_at_work(self, within_sec: float = _AT_WORK_SEC) -> set[str]:
        """The tags of the other hosts that have lately written about their sending."""
        tags = set()
        for page in self.folder.glob("*/state.json") if self.is_shared else ():
            with suppress(OSError):
                if time.time() - page.stat().st_mtime < within_sec:
                    tags.add(tag_of(page.parent.name))
        return tags - {host_tag()}

    @property
    def policy(self) -> SendingPolicy:
        """What is sent without being asked for; all, if nothing was saved.

        Raises:
            ConfigError: the file is damaged.
        """
        path = self.folder / "policy.json"
        try:
            return msgspec.json.decode(read_page(path), type=SendingPolicy)
        except FileNotFoundError:
            return SendingPolicy()
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path} cannot be read ({error}); write it anew: rolltrace sync --save") from None

    @policy.setter
    def policy(self, policy: SendingPolicy) -> None:
        self._write(self.folder / "policy.json", msgspec.json.format(msgspec.json.encode(policy)) + b"\n")

    @property
    def state(self) -> State:
        """How it went when a sender last said so."""
        try:
            return msgspec.json.decode(read_page(self.own_folder / "state.json"), type=State)
        except (FileNotFoundError, msgspec.MsgspecError):
            return State()

    @state.setter
    def state(self, state: State) -> None:
        state.last_error, state.stopped = (
            text and self.cleaner.text(text) for text in (state.last_error, state.stopped)
        )
        self._write(self.own_folder / "state.json", msgspec.json.format(msgspec.json.encode(state)) + b"\n")

    def works_again(self) -> None:
        """Take back what the state says of an outage or a wrong key. What waits is counted by whoever sends next."""
        state = self.state
        if state.stopped or state.last_error:
            state.stopped = state.last_error = state.next_try_ns = None
            self.state = state

    def sending(self) -> AbstractContextManager[bool]:
        """Hold this to send. Gives False if another sender does."""
        return file_lock(self.lock_files()[0])

    def alone_in_background(self) -> AbstractContextManager[bool]:
        """Held by the one sender in the background, as long as it lives. Gives False if there is one."""
        return file_lock(self.lock_files()[1])

    def lock_files(self) -> tuple[Path, Path]:
        """What stands for these locks: beside the journals, since the file system of the store may have none."""
        folder = journal_folder(self.store)
        return folder / f"{self.folder.name}.sender.lock", folder / f"{self.folder.name}.follower.lock"

    def _write(self, path: Path, text: bytes) -> None:
        make_folder(path.parent)
        replace_file(path, text)
