"""The folder of one backend: who sends, what was sent, what may be sent, and how it goes.

    STORE/outbox/BACKEND/routes/             which experiments go there (tables/routes.py)
    STORE/outbox/BACKEND/policy.json         which trajectories, and how much a day: `rolltrace sync --save`
    STORE/outbox/BACKEND/HOST/sent.jsonl     what a host gave it (keeper/position.py)
    STORE/outbox/BACKEND/HOST/state.json     how it goes, for people
    STORE/outbox/BACKEND/HOST/sender.log     what the sender's process and the vendor's library said
    STORE/outbox/BACKEND/hosts/              which host sends for one that is gone (keeper/sending_hosts.py)

Each host sends what it has recorded, and writes only to its own folder. On one host one sender works at a time, under a
lock beside its journals. It gives the lock back between rounds, so that `rolltrace sync` gets its turn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from rolltrace._amounts import size_of
from rolltrace.errors import ConfigError
from rolltrace.files import file_lock, make_folder, read_page, replace_file
from rolltrace.journal import journal_folder
from rolltrace.keeper.clean_output import Cleaner
from rolltrace.keeper.position import Position
from rolltrace.keeper.sending_hosts import SendingHosts
from rolltrace.query import compile_where
from rolltrace.tables import Route, address_in, outbox_folder, routes, sender_folder


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
        self.hosts = SendingHosts(self.folder, is_shared=self.is_shared)
        self.position = Position(self.own_folder / "sent.jsonl", self._of_others, self.cleaner.text)

    def _of_others(self) -> list[Path]:
        """What other hosts gave to the backend."""
        return sorted({*self.folder.glob("*/sent.jsonl")} - {self.own_folder / "sent.jsonl"})

    def routes(self) -> set[Route]:
        """The experiments that go to this backend by themselves."""
        return routes(self.store, self.backend)

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
        except msgspec.MsgspecError as fault:
            raise ConfigError(f"{path} cannot be read ({fault}); write it anew: rolltrace sync --save") from None

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
        state.last_error, state.stopped = self.clean(state.last_error), self.clean(state.stopped)
        self._write(self.own_folder / "state.json", msgspec.json.format(msgspec.json.encode(state)) + b"\n")

    def clean(self, text: str | None) -> str | None:
        """What an error said, without the credentials that it quotes."""
        return None if text is None else self.cleaner.text(text)

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
