"""What one look at a store found, and the connections that answer questions about it.

A snapshot never changes: the next look makes another one. While that is being made, questions are answered from the
one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from rolltrace.pass_rule import Experiment, PassRule, rules_digest
from rolltrace.query.coverage import CoversFolder, LiveRows, parts_for
from rolltrace.query.summary import Folder
from rolltrace.query.views import Cursor
from rolltrace.store import step_folder

ScopeKey = int | frozenset[Path] | None
"""One step, the folders of some steps, or all."""


class JournalState(NamedTuple):
    """What the last look at the journals found besides their rows."""

    is_empty: bool = True
    """There is no journal."""
    recording: frozenset[tuple[str, str]] = frozenset()
    """Project and experiment of each process that writes."""
    unread: Mapping[Path, int] = {}
    """Files that were not read to their end -> how many bytes are left."""
    unreadable: Mapping[Path, str] = {}
    """Files that cannot be read -> why."""
    damaged: Mapping[Path, int] = {}
    """Files in which records are damaged -> how many places of them."""


class Snapshot:
    """The parts and the rows of journals that questions see until the next look."""

    def __init__(
        self,
        folders: Mapping[Path, Folder],
        live: LiveRows,
        number: int,
        pass_rules: Mapping[Experiment, PassRule] = MappingProxyType({}),
    ) -> None:
        self.folders = folders
        self.live = live
        self.number = number
        """How often there was new data."""
        self.pass_rules = pass_rules
        """What pass means, in the experiments for which somebody has chosen."""
        self.cursors: dict[ScopeKey, Cursor] = {}
        self._versions: dict[int | None, str] = {}

    @cached_property
    def live_folders(self) -> frozenset[Path]:
        """The folders of steps of which journals have rows."""
        return frozenset(path for folders in self.live.values() for path in folders)

    @cached_property
    def sizes(self) -> Counter[Path]:
        """How many bytes the parts have, by the folder of their experiment."""
        sizes: Counter[Path] = Counter()
        for folder in self.folders.values():
            for part in folder.parts:
                with suppress(FileNotFoundError):  # compacted or pruned meanwhile
                    sizes[folder.path.parent] += part.stat().st_size
        return sizes

    def version(self, step: int | None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        if step not in self._versions:
            scope = scope_of(step)
            parts = xxh3_64_hexdigest("\n".join(map(str, parts_for(self.folders, scope))).encode())
            parts += rules_digest(self.pass_rules)
            self._versions[step] = f"{parts}-{self.number}" if self._moves(scope) else parts
        return self._versions[step]

    def _moves(self, scope: CoversFolder) -> bool:
        return any(scope(path) or path.name == step_folder(None) for path in self.live_folders)

    def parts(self, scope: CoversFolder) -> list[Path]:
        return [part for path, folder in self.folders.items() if scope(path) for part in folder.parts]

    def has_same_rows(self, other: Snapshot, key: ScopeKey) -> bool:
        """Whether questions about a step have the same answers in both; false if that cannot be told cheaply."""
        if not isinstance(key, int) or self.pass_rules != other.pass_rules:
            return False
        scope = scope_of(key)
        return not (self._moves(scope) or other._moves(scope)) and self._of(scope) == other._of(scope)

    def _of(self, scope: CoversFolder) -> list[Folder]:
        late = step_folder(None)
        return [folder for path, folder in self.folders.items() if scope(path) or path.name == late]


def scope_of(key: ScopeKey) -> CoversFolder:
    """Which folders of steps are meant."""
    if key is None:
        return lambda path: True
    if isinstance(key, frozenset):
        return key.__contains__
    name = step_folder(key)
    return lambda path: path.name == name
