"""Which steps can be listed from what, and the listings of those that have no summary.

A trajectory has one step, so all its rows are in the folders of that step or in the journals; only scores that were
given by id alone are elsewhere, and join on top (query/score_views.py). So a step is

- moving: journals have rows of it. It is listed from its parts and from them, each time.
- summarised: its listing is on disk (query/summary.py).
- settled: neither. It is listed from its parts, once; whoever keeps the process running pays for it once.

Processes that work on one trajectory may write under several experiments. Where a folder has rows of a trajectory that
is not its own (strays), it is listed together with the folders of that step in the other experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rolltrace.query.summary import Folder
from rolltrace.store import Partition


class PartKey(NamedTuple):
    """Which part the drainer makes of some rows of a segment."""

    folder: Path
    table: str
    source: str


class Listed(NamedTuple):
    """The listing of some parts, and the folders that have strays."""

    rows: pa.Table
    strays: list[Path]


ListParts = Callable[[Sequence[Path], bool], Listed]
"""Lists some parts, by folder; with the live rows or without."""


class Division(NamedTuple):
    """How the steps of a question are listed."""

    summarised: list[Folder]
    computed: pa.Table | None
    """Of all others; None if there are none."""


class Listings:
    """The listings of settled steps, computed once."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._known: dict[Path, tuple[str, pa.Table]] = {}
        self.is_regular = True
        """Every row was found in the folder that its project, experiment and step say."""
        self._strays: dict[Path, str] = {}
        """Settled folders that have strays, with the fingerprint they have been seen with."""

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

        def has_strays(path: Path) -> bool:
            folder = folders[path]
            return folder.summary.strays if folder.summary else self._strays.get(path) == folder.fingerprint

        together = {path.name for path in shared if has_strays(path)}
        while True:
            mixed = {path for path in folders if path.name in together}
            settled = [path for path in chosen if path not in moving | mixed and folders[path].summary is None]
            unknown = [path for path in settled if self._known.get(path, ("",))[0] != folders[path].fingerprint]
            strays = self._compute(unknown, folders, make) if unknown else []
            active = [path for path in folders if path in moving | mixed and (path in chosen or path in mixed)]
            now = make([part for path in active for part in folders[path].parts], True) if active or moving else None
            shared_names = {path.name for path in (*strays, *(now.strays if now else ())) if names[path.name] > 1}
            if shared_names <= together:
                break
            together |= shared_names
        tables = [self._known[path][1] for path in settled] + ([now.rows] if now else [])
        done = [folders[path] for path in chosen if path not in moving | mixed and folders[path].summary is not None]
        if not tables and not done:  # nothing at all, but with columns
            tables = [make([], False).rows]
        return Division(done, pa.concat_tables(tables) if tables else None)

    def _compute(self, paths: list[Path], folders: Mapping[Path, Folder], make: ListParts) -> list[Path]:
        listed = make([part for path in paths for part in folders[path].parts], False)
        for path in paths:
            self._known[path] = (folders[path].fingerprint, listed.rows.slice(0, 0))
        own = set(paths)
        for path, rows in by_folder(self._store, listed.rows):
            if path in own:
                self._known[path] = (folders[path].fingerprint, rows)
            else:  # somebody has moved the folder; its rows are not to be lost
                self.is_regular = False
                fingerprint, others = self._known[paths[0]]
                self._known[paths[0]] = (fingerprint, pa.concat_tables([others, rows]))
        for path in listed.strays:
            if path in folders:
                self._strays[path] = folders[path].fingerprint
        return listed.strays


def by_folder(store: Path, rows: pa.Table) -> Iterable[tuple[Path, pa.Table]]:
    """The rows of each folder, of rows that are in order."""
    begin = 0
    places = list(zip(*(rows[name].to_pylist() for name in Partition._fields))) if len(rows) else []
    for at, place in enumerate(places, 1):
        if at == len(places) or places[at] != place:
            project, experiment, step = place
            where = Partition(project or "unknown", experiment or "unknown", step)  # a part that is not ours has none
            yield where.folder(store), rows.slice(begin, at - begin)
            begin = at
