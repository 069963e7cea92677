"""Bring the finished parts of a store into a lake, each exactly once, as the files they are.

A part is finished when its journal segment is gone: nobody writes it again. A part that stands for others which are in
the lake takes their place there, in one commit; so what was merged, pruned or dropped here becomes so there. If the
lake has merged those itself by then, their rows are in what they became, and the part is left out: see `compact.py` for
what becomes of payloads that were pruned here.

At every point a kill or a lost answer leaves nothing but a claim (`position.py`), a file that no table names, or both.

Where several hosts share the store, one of them ships, under a lease, what all have brought. One that was suspended may
go on after another has taken over, so nothing rests on the lease. A round looks at the tables first, then at the notes
of all hosts, then at the parts: what was brought in before is known by the time of choosing, and what is brought in
after gets into conflict with the commit, which names every part whose rows it brings in. After a conflict it looks
again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rolltrace._arrow import pa, pq
from rolltrace._guard import logger
from rolltrace.errors import OutageError
from rolltrace.lake.address import LakeAddress
from rolltrace.lake.objects import Objects, check_lake
from rolltrace.lake.position import LakePosition, choosing, lake_path, name_of, names_in, partition_of
from rolltrace.lake.tables import TABLE_NAMES, Conflict, LakePart, LakeTable
from rolltrace.record import FORMAT
from rolltrace.store import (
    Partition,
    Route,
    data_folder,
    is_emptied,
    list_parts,
    merged_into,
    other_hosts,
    source_of,
    table_of,
    undrained_sources,
)

_MOST_PARTS = 256
_MOST_BYTES = 512 << 20
"""How much is put into the lake between two looks."""
_UPLOADS_AT_ONCE = 8
_TRIES = 8
"""How often a round is begun anew after a conflict."""
_PAUSE_SEC = 0.05
Progress = Callable[[int, int], None]


class Shipped(NamedTuple):
    """What a round did."""

    parts: int
    bytes: int
    left: int
    """How many finished parts are still to be shipped."""
    stuck: list[str]
    """Parts that cannot be shipped without doubling rows."""


@dataclass
class _Chosen:
    """What goes into one table."""

    adds: dict[str, tuple[Path, LakePart]] = field(default_factory=dict)
    """Path in the lake -> the file, and what the table is to know."""
    instead_of: dict[str, list[str]] = field(default_factory=dict)
    """Path of an added part -> paths of those in the lake that it stands for."""


class Shipper:
    """Ships one store to one lake. One at a time: whoever calls `round` holds `position.shipping()`."""

    def __init__(
        self,
        store: Path,
        address: LakeAddress,
        *,
        routes: Callable[[], Collection[Route]] | None = None,
    ) -> None:
        """The parts of these experiments; of all if not given."""
        self.position = LakePosition(store, address)
        self._store = store
        self._address = address
        self._routes = routes
        self._tables: dict[str, LakeTable] = {}
        self._objects: Objects | None = None
        self._is_ready = False
        self._is_shared = False

    def round(self, progress: Progress = lambda done, total: None) -> Shipped:
        """Ship some of what is finished.

        Raises:
            BackendError: somebody has to do something first.
            OutageError: it did not work; the next round goes on from there.
        """
        self._make_ready()
        parts = size = 0
        for attempt in range(_TRIES):
            self.position.load()
            finished = {path for path, _ in self._finished()}
            if not self.position.claimed and finished <= self.position.shipped:  # nothing to ask the lake about
                return Shipped(parts, size, 0, [])
            self._look(finished)
            with choosing(self._store) as alone:
                if not alone:
                    raise OutageError("the parts of this store are being merged; try again later")
                chosen, left, stuck = self._choose()
                self.position.claim(path for each in chosen.values() for path in each.adds)
            if not any(each.adds for each in chosen.values()):
                return Shipped(parts, size, left, stuck)
            self._put_blobs()
            size += self._put(chosen, progress)
            try:
                for name in TABLE_NAMES:
                    parts += self._commit(name, chosen[name])
            except Conflict:  # perhaps it went through, and the answer was lost; or another host was faster
                time.sleep(_PAUSE_SEC * attempt)
                continue
            self.position.tidy()
            return Shipped(parts, size, left, stuck)
        raise OutageError(f"the lake {self._address.url!r} changes all the time; trying again later")

    def pending(self) -> int:
        """How many finished parts the lake does not have, as far as is known here."""
        self.position.load()
        return sum(path not in self.position.shipped for path, _ in self._finished())

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._objects = Objects(self._address)
            if not check_lake(self._address, self._objects):
                self._objects.put("format.json", b'{"format": %d}\n' % FORMAT)
            self._save_url()
            self._is_ready = True

    def _save_url(self) -> None:
        """Of a lake that something was claimed for, everybody on this host must know."""
        state = self.position.state
        state.url = self._address.url
        self.position.state = state

    def _table(self, name: str) -> LakeTable:
        if name not in self._tables:
            self._tables[name] = LakeTable(self._address, name)
            self._tables[name].make()
        return self._tables[name]

    def _look(self, finished: set[str]) -> None:
        """Look at the tables, then at the notes, and settle what these leave open."""
        self._is_shared = bool(other_hosts(self._store))
        for name in sorted({_table_of(path) for path in self.position.claimed | finished}):
            self._table(name).refresh()
        self.position.load()
        self._settle_claims()

    def _settle_claims(self) -> None:
        """Ask the tables what became of claims: after a kill or an outage, nobody here knows."""
        uncertain = defaultdict(set)
        for path in self.position.claimed:
            uncertain[_table_of(path)].add(path)
        for name, paths in uncertain.items():
            added = paths & self._table(name).added().paths
            names = [name for path in sorted(added) for name in self._names(path)]
            self.position.ship(sorted(added), self._paths_in_lake(names))
            self.position.forget(sorted(paths - added - self._may_come(paths)))
        if self.position.is_new:
            self._recall()

    def _may_come(self, paths: Collection[str]) -> set[str]:
        """Those of these claims that another host may yet commit, and that stand in the way of merging until then."""
        if not self._is_shared:
            return set()
        names = {name for path, _ in self._finished() for name in (name_of(path), *self._names(path))}
        return {path for path in paths if name_of(path) in names}

    def _recall(self) -> None:
        """Nothing is known here of this lake: perhaps it has been forgotten, or the store was copied from elsewhere."""
        wanted = defaultdict(set)
        for path, _ in self._finished():
            wanted[_table_of(path)].add(path)
        for name, paths in wanted.items():
            if (table := self._table(name)).version > 0:
                ids = table.added().paths
                by_name = {name_of(path): path for path in ids}
                paths_in_lake = paths & ids
                for path in paths - ids:
                    names, merged = self._names(path), len(merged_into(data_folder(self._store) / name_of(path)))
                    # A name that was handed on counts if it is there, or if none of the merged ones ever was.
                    some = any(name in by_name for name in names[:merged])
                    paths_in_lake |= {
                        by_name[name]
                        for at, name in enumerate(names)
                        if name in by_name and (at < merged or not some or by_name[name] in table.active())
                    }
                self.position.ship(sorted(paths_in_lake))
        self.position.is_new = False

    def _finished(self) -> list[tuple[str, Path]]:
        """Every part that may be shipped, with its path in the lake."""
        parts = list_parts(self._store)
        undrained = undrained_sources(self._store)  # after the parts: what is gone by now is not written again
        wanted = None
        if self._routes is not None:
            wanted = {Partition(*route, None).folder(self._store).parent for route in self._routes()}
        finished = []
        for part in parts:
            is_wanted = wanted is None or part.parent.parent in wanted
            is_due = source_of(part) not in undrained and not is_emptied(part)
            if table_of(part) in TABLE_NAMES and is_wanted and is_due:
                try:
                    finished.append((lake_path(self._store, part), part))
                except OSError:  # merged meanwhile, or damaged: `rolltrace doctor` says so
                    continue
        return finished

    def _choose(self) -> tuple[dict[str, _Chosen], int, list[str]]:
        """What to ship now, how much is left for later, and what cannot be shipped."""
        chosen: dict[str, _Chosen] = {name: _Chosen() for name in TABLE_NAMES}
        stuck: list[str] = []
        count = size = left = 0
        for path, part in self._finished():
            if path in self.position.shipped:
                continue
            if count >= _MOST_PARTS or size >= _MOST_BYTES:
                left += 1
                continue
            # Also what was shipped under its own name: a drainer of another host may have written it again.
            instead_of = self._paths_in_lake([name_of(path), *self._names(path)])
            if not instead_of and self._is_shared and self._is_there(path, stuck):
                continue
            if instead_of and not self._are_active(path, instead_of):
                merged = self._names(path)[: len(merged_into(part))]
                if 0 < len(self._paths_in_lake(merged)) < len(merged):
                    stuck.append(path)
                else:  # merged in the lake: its rows are there
                    self.position.ship([path], instead_of)
                continue
            try:
                described = _describe(self._store, part, path)
            except (OSError, ValueError, KeyError, pa.ArrowException) as fault:
                logger.warning("not shipped, because it cannot be read: %s (%s)", part, fault)
                continue
            chosen[_table_of(path)].adds[path] = (part, described)
            if instead_of:
                chosen[_table_of(path)].instead_of[path] = instead_of
            count, size = count + 1, size + described.size
        return chosen, left, stuck

    def _names(self, path: str) -> list[str]:
        """The names of the parts that the one at this path in the lake stands for."""
        return names_in(self._store, data_folder(self._store) / name_of(path))

    def _paths_in_lake(self, names: Iterable[str]) -> list[str]:
        """The paths of those of these parts that the lake has, as far as is known here."""
        return [path for name in names if (path := self.position.path_of(name)) is not None]

    def _are_active(self, path: str, others: Collection[str]) -> bool:
        return self._table(_table_of(path)).active().keys() >= set(others)

    def _is_there(self, path: str, stuck: list[str]) -> bool:
        """Whether the lake has a part, or its rows in another one: a file system may list what was merged long ago."""
        added = self._table(_table_of(path)).added()
        if path in added.paths:
            self.position.ship([path])
        elif name_of(path) in added.names:
            stuck.append(path)
        return path in added.paths or name_of(path) in added.names

    def _put_blobs(self) -> None:
        """After the parts were listed: what these point to is there by now."""
        assert self._objects is not None
        blobs = self._store / "blobs"
        missing = [
            file
            for file in sorted(blobs.glob("??/*"))
            if not file.name.startswith(".") and file.name not in self.position.blobs and file.is_file()
        ]
        objects = self._objects
        with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
            list(pool.map(lambda file: objects.put_file(f"blobs/{file.parent.name}/{file.name}", file), missing))
        self.position.ship_blobs(file.name for file in missing)

    def _put(self, chosen: Mapping[str, _Chosen], progress: Progress) -> int:
        """Put the files of the chosen parts into the lake; how many bytes. What is gone meanwhile is not chosen."""
        assert self._objects is not None
        objects, done = self._objects, 0
        work = [(name, path, *each) for name, of_table in chosen.items() for path, each in of_table.adds.items()]

        def put(item: tuple[str, str, Path, LakePart]) -> int | None:
            nonlocal done
            name, path, part, _ = item
            try:
                return objects.put_file(f"{name}/{path}", part)
            except FileNotFoundError:  # pruned since: what it became is another round's
                return None
            finally:
                done += 1
                progress(done, len(work))

        with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
            sizes = list(pool.map(put, work))
        for (name, path, _, described), size in zip(work, sizes, strict=True):
            if size != described.size:
                del chosen[name].adds[path]
                chosen[name].instead_of.pop(path, None)
                self.position.forget([path])
        return sum(filter(None, sizes))

    def _commit(self, name: str, chosen: _Chosen) -> int:
        """How many parts were added.

        Raises:
            Conflict: the table has changed since it was looked at, in a way that matters.
        """
        if not chosen.adds:
            return 0
        table = self._table(name)
        removes = [table.active()[old] for olds in chosen.instead_of.values() for old in olds]
        table.commit([described for _, described in chosen.adds.values()], removes, self._brought_by(chosen))
        settled = [claim for path in chosen.adds for claim in self._claims_in(path)]
        self.position.ship(
            sorted(chosen.adds), [*(old for olds in chosen.instead_of.values() for old in olds), *settled]
        )
        return len(chosen.adds)

    def _brought_by(self, chosen: _Chosen) -> set[str]:
        """The names of the parts whose rows come into the lake."""
        names = {name_of(path) for path in chosen.adds}
        if self._is_shared:
            names.update(each for path in chosen.adds for each in self._names(path))
        return {name for name in names if self.position.path_of(name) is None}

    def _claims_in(self, path: str) -> list[str]:
        """Claims of parts whose rows are in this one: whoever has claimed them cannot commit them any more."""
        names = set(self._names(path))
        return [claim for claim in self.position.claimed if name_of(claim) in names] if names else []


def _table_of(path: str) -> str:
    return path.rpartition("/")[2].partition("--")[0]


def _describe(store: Path, part: Path, path: str) -> LakePart:
    """What a table is to know of a part."""
    partition = partition_of(part)
    if partition.folder(store) != part.parent:
        raise ValueError("its rows belong elsewhere")
    return LakePart(path, part.stat().st_size, pq.read_metadata(part).num_rows, partition)
