"""Which steps can be listed from what, and the listings of those that have no summary.

A trajectory has one step, so all its rows are in the folders of that step or in the journals; only scores that were
given by id alone are elsewhere, and join on top (query/score_views.py). So a step is

- moving: journals have rows of it. It is listed from its parts and from them, each time.
- summarised: its listing is on disk (query/summary.py).
- settled: neither. It is listed from its parts, once; whoever keeps the process running pays for it once.

A listing that was computed is a table of the database, in which every row has the number of its folder.

Processes that work on one trajectory may write under several experiments. Where a folder has rows of a trajectory that
is not its own (strays), it is listed together with the folders of that step in the other experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rolltrace.query.summary import Folder
from rolltrace.store import Partition


class PartKey(NamedTuple):
    """Which part the drainer makes of some rows of a segment."""

    folder: Path
    table: str
    source: str


PLACE = "_place"
"""The column of such a table that has the numbers of the folders, from 1."""


class Range(NamedTuple):
    """The rows of some folders in such a table."""

    table: str
    first: int
    last: int


class Listed(NamedTuple):
    """The listing of some parts, and the folders that have strays."""

    rows: Range
    places: list[tuple[Partition, Range]]
    """Whose rows these are, in their order."""
    strays: list[Path]


ListParts = Callable[[Sequence[Path], bool], Listed]
"""Lists some parts, by folder; with the live rows or without."""


class Division(NamedTuple):
    """How the steps of a question are listed."""

    summarised: list[Folder]
    computed: list[Range]
    """The rows of all others; none if there are no others."""
    moving: list[str]
    """The tables among these that hold live rows, and are of no use to any later question."""


class Listings:
    """The listings of settled steps, computed once."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._ranges: dict[Path, tuple[str, list[Range]]] = {}
        self.is_regular = True
        """Every row was found in the folder that its project, experiment and step say."""
        self._strays: dict[Path, str] = {}
        """Settled folders that have strays, with the fingerprint they have been seen with."""

    def forget(self) -> None:
        """The tables are gone."""
        self._ranges.clear()

    def tables(self) -> set[str]:
        """The tables that are still of use."""
        return {each.table for _, ranges in self._ranges.values() for each in ranges}

    def divide(
        self,
        folders: Mapping[Path, Folder],
        wanted: Iterable[Path],
        moving: set[Path],
        make: ListParts,
    ) -> Division:
        """How these folders, some of all, are listed."""
        names = Counter(path.name for path in folders)
        chosen = dict.fromkeys(path for path in wanted if path in folders)
        shared = {path for path in chosen if names[path.name] > 1}
        tables_of_now: list[str] = []

        def has_strays(path: Path) -> bool:
            folder = folders[path]
            return folder.summary.strays if folder.summary else self._strays.get(path) == folder.fingerprint

        together = {path.name for path in shared if has_strays(path)}
        while True:
            mixed = {path for path in folders if path.name in together}
            settled = [path for path in chosen if path not in moving | mixed and folders[path].summary is None]
            unknown = [path for path in settled if self._ranges.get(path, ("",))[0] != folders[path].fingerprint]
            strays = self._compute(unknown, folders, make) if unknown else []
            active = [path for path in folders if path in moving | mixed and (path in chosen or path in mixed)]
            now = make([part for path in active for part in folders[path].parts], True) if active or moving else None
            tables_of_now += [now.rows.table] if now else []
            shared_names = {path.name for path in (*strays, *(now.strays if now else ())) if names[path.name] > 1}
            if shared_names <= together:
                break
            together |= shared_names
        computed = [each for path in settled for each in self._ranges[path][1]] + ([now.rows] if now else [])
        done = [folders[path] for path in chosen if path not in moving | mixed and folders[path].summary is not None]
        if not computed and not done:  # nothing at all, but with columns
            computed = [make([], False).rows]
            tables_of_now.append(computed[0].table)
        return Division(done, computed, tables_of_now)

    def _compute(self, paths: list[Path], folders: Mapping[Path, Folder], make: ListParts) -> list[Path]:
        listed = make([part for path in paths for part in folders[path].parts], False)
        own, nothing = set(paths), listed.rows._replace(last=0)
        for path in paths:
            self._ranges[path] = (folders[path].fingerprint, [nothing])
        for place, rows in listed.places:
            path = place.folder(self._store)
            if path not in own:  # somebody has moved the folder; its rows are not to be lost
                self.is_regular = False
                path = paths[0]
            self._ranges[path][1].append(rows)
        for path in listed.strays:
            if path in folders:
                self._strays[path] = folders[path].fingerprint
        return listed.strays


def rows_of(ranges: Iterable[Range]) -> str:
    """SQL: all rows of some ranges."""
    joined: list[Range] = []
    for each in sorted(set(ranges)):
        if joined and joined[-1].table == each.table and joined[-1].last + 1 >= each.first:
            joined[-1] = joined[-1]._replace(last=max(joined[-1].last, each.last))
        else:
            joined.append(each)
    return " UNION ALL ".join(
        f"SELECT * EXCLUDE ({PLACE}) FROM {table} WHERE {PLACE} BETWEEN {first} AND {last}"
        for table, first, last in joined
    )
