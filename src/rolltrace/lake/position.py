"""What of a store is in a lake, as far as its hosts know, so that the table need not be asked about every part.

    STORE/outbox/lake/HOST/LAKE/parts.jsonl     [number, "claimed" | "shipped" | "forgotten" | "blobs", [names]] a line
    STORE/outbox/lake/HOST/LAKE/state.json      how it goes, for people

A part is claimed before its file is put into the lake, and counts as shipped when the commit that adds it went through.
What is claimed and not shipped when somebody looks is uncertain, after a kill or a lost answer: the table's transaction
ids tell. Each host writes its own file and reads those of all, in the order of the numbers, which are higher than any
that was there to see: what one has claimed and not shipped, the next settles.

Parts are merged on this host only with others that are as far as they are (`kinds`): either none of them is in the lake
and what they become is a new part, or all are and it takes their place. Else a row could be in the lake twice, or not
at all, when the lake merges its parts too. Nobody chooses parts to merge while somebody chooses parts to ship
(`choosing`). Where hosts share a folder that lock may not reach; then a part that is made of both takes the place of
those that the lake has, and if the lake has merged these meanwhile it is not shipped, and told of. What another host
has claimed and not shipped stays claimed until this one has brought its rows in: see `ship.py` for why that host then
cannot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from rolltrace._arrow import pq
from rolltrace.files import file_lock, make_folder, open_file, read_page, replace_file, sync_path
from rolltrace.journal import journal_folder
from rolltrace.lake.address import LakeAddress
from rolltrace.store import (
    Partition,
    checksum_of,
    data_folder,
    outbox_folder,
    replaced_by,
    sender_folder,
    step_of,
    table_of,
    unescape,
)

BACKEND = "lake"
"""The name that `init(backend=...)` takes."""
CLAIMED, SHIPPED, FORGOTTEN, BLOBS = "claimed", "shipped", "forgotten", "blobs"
_FILE = "parts.jsonl"
_Line = tuple[int, str, list[str]]
_SUM_DIGITS = 16
_FEWEST_LINES = 1000
_LOOK_SEC = 0.02
_sums: dict[Path, tuple[tuple[int, int], str]] = {}
"""Part -> its time and size, and its checksum: these are asked for in every round."""


class ShipState(msgspec.Struct):
    """How shipping to one lake goes, as of `time_ns`."""

    url: str = ""
    shipped: int = 0
    """Parts that the lake has."""
    pending: int = 0
    """Finished parts that it does not have yet."""
    stuck: list[str] = []
    """Parts that cannot be shipped without doubling rows."""
    last_error: str | None = None
    last_error_ns: int | None = None
    next_try_ns: int | None = None
    stopped: str | None = None
    """Why it is not tried again until somebody does something."""
    time_ns: int = 0


def lake_path(store: Path, part: Path) -> str:
    """Where a part goes in the lake, below the folder of its table.

    Raises:
        OSError: it cannot be read.
    """
    status = part.stat()
    key = (status.st_mtime_ns, status.st_size)
    cached = _sums.get(part)
    if cached is None or cached[0] != key:
        checksum = checksum_of(part)
        if checksum is None:  # of an import by another tool, or of a very old version
            raise OSError(f"{part} has no checksum")
        cached = _sums[part] = (key, checksum[:_SUM_DIGITS])
    place = part.relative_to(data_folder(store))
    return f"{place.parent}/{place.stem}~{cached[1]}.parquet"


def name_of(path: str) -> str:
    """The path of the part in a store that a path in the lake is of: without the checksum."""
    return path.rpartition("~")[0] + ".parquet" if "~" in path.rpartition("/")[2] else path


class LakePosition:
    """Of one lake: what the hosts of a store have claimed, and what they have shipped."""

    def __init__(self, store: Path, address: LakeAddress) -> None:
        self.store = store
        self.address = address
        self.folder = sender_folder(store, BACKEND) / address.name
        self.claimed: set[str] = set()
        self.shipped: set[str] = set()
        self.blobs: set[str] = set()
        self.is_new = True
        """Nothing was ever shipped there from this store."""
        self._names: dict[str, str] = {}
        self._lines = 0
        self._number = 0
        """The highest of all lines."""
        self._is_alone = True
        self._read: dict[Path, tuple[int, int]] | None = None
        """The files that were read, with their inodes and sizes."""

    def load(self) -> None:
        """Read it anew, unless there is only the file of this host, and nobody else has written to it."""
        there = self._files()
        if there == self._read and there.keys() <= {self.folder / _FILE}:
            return
        self._read = there
        self.claimed, self.shipped, self.blobs, self._names, self._lines = set(), set(), set(), {}, 0
        own = self.folder / _FILE
        lines: list[_Line] = []
        for file in sorted(there):
            read = list(_read(file))
            lines += read
            self._lines += len(read) if file == own else 0
            self._is_alone &= file == own
        for number, what, names in sorted(lines, key=lambda line: line[0]):
            self._number = max(self._number, number)
            self._note(what, names)
        self.is_new = not self._lines and not self.shipped

    def _files(self) -> dict[Path, tuple[int, int]]:
        """The notes of every host."""
        files = outbox_folder(self.store, BACKEND).glob(f"*/{self.address.name}/{_FILE}")
        return {file: ((status := file.stat()).st_ino, status.st_size) for file in files}

    def claim(self, paths: Iterable[str]) -> None:
        """These are about to be put into the lake. A power cut does not take that back."""
        listed = list(paths)
        if listed:
            self._write(CLAIMED, listed)
            sync_path(self.folder / _FILE)

    def ship(self, paths: Iterable[str], instead_of: Iterable[str] = ()) -> None:
        """The lake has these, and not those any more."""
        self._write(SHIPPED, paths)
        self._write(FORGOTTEN, instead_of)

    def forget(self, paths: Iterable[str]) -> None:
        """These are as if they had never been claimed."""
        self._write(FORGOTTEN, paths)

    def ship_blobs(self, names: Iterable[str]) -> None:
        self._write(BLOBS, names)

    def path_of(self, name: str) -> str | None:
        """The path in the lake of a part that was shipped from here, by its path in the store."""
        return self._names.get(name)

    def tidy(self) -> None:
        """Rewrite a file that has become much longer than what it says, unless it corrects those of other hosts."""
        if self._is_alone and self._lines > _FEWEST_LINES and self._lines > 4 * (len(self.shipped) // 64 + 1):
            contents = {SHIPPED: self.shipped, CLAIMED: self.claimed, BLOBS: self.blobs}
            self._number += 1
            lines: list[_Line] = [(self._number, what, sorted(names)) for what, names in contents.items()]
            replace_file(self.folder / _FILE, (msgspec.json.encode(line) + b"\n" for line in lines), durable=True)
            self._lines = len(lines)
            self._read = None

    def shipping(self) -> AbstractContextManager[bool]:
        """Hold this to ship. Gives False if somebody else does."""
        return file_lock(journal_folder(self.store) / f"{BACKEND}.{self.address.name}.lock")

    @property
    def state(self) -> ShipState:
        try:
            return msgspec.json.decode(read_page(self.folder / "state.json"), type=ShipState)
        except (OSError, msgspec.MsgspecError):
            return ShipState(self.address.url)

    @state.setter
    def state(self, state: ShipState) -> None:
        state.time_ns = time.time_ns()
        make_folder(self.folder)
        replace_file(self.folder / "state.json", msgspec.json.format(msgspec.json.encode(state)) + b"\n")

    def _write(self, what: str, names: Iterable[str]) -> None:
        listed = list(names)
        if not listed:
            return
        make_folder(self.folder)
        self._number += 1
        with open(self.folder / _FILE, "ab", opener=open_file) as file:
            before, inode = file.tell(), os.fstat(file.fileno()).st_ino
            # A kill may have cut the last line.
            line = b"\n" * (before > 0) + msgspec.json.encode((self._number, what, listed)) + b"\n"
            file.write(line)
        self._lines += 1
        if self._read is not None and self._read.get(self.folder / _FILE, (inode, 0)) == (inode, before):
            self._read[self.folder / _FILE] = (inode, before + len(line))  # else another process has written too
        self._note(what, listed)

    def _note(self, what: str, names: list[str]) -> None:
        if what == BLOBS:
            self.blobs.update(names)
        elif what == CLAIMED:
            self.claimed.update(names)
        elif what == SHIPPED:
            self.claimed.difference_update(names)
            self.shipped.update(names)
            self._names.update((name_of(path), path) for path in names)
        elif what == FORGOTTEN:
            self.claimed.difference_update(names)
            self.shipped.difference_update(names)
            for path in names:
                if self._names.get(name_of(path)) == path:
                    del self._names[name_of(path)]


def _read(file: Path) -> Iterator[_Line]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError:  # empty, or cut by a kill
            continue


def positions(store: Path) -> list[LakePosition]:
    """Those of every lake that this store is shipped to, loaded."""
    loaded = []
    for name in sorted({folder.name for folder in outbox_folder(store, BACKEND).glob("*/*") if folder.is_dir()}):
        position = LakePosition(store, LakeAddress(name))
        for state in sorted(outbox_folder(store, BACKEND).glob(f"*/{name}/state.json")):
            try:
                position = LakePosition(store, LakeAddress(msgspec.json.decode(read_page(state), type=ShipState).url))
                break
            except (OSError, msgspec.MsgspecError):
                continue
        position.load()
        loaded.append(position)
    return loaded


Kinds = Callable[[Path], object | None]
"""Says of a part which others it may be merged with: those of the same kind; None for none at all."""


def kinds(store: Path) -> Kinds:
    """What tells parts apart that are not to be merged with each other. The caller holds `choosing`."""
    loaded = positions(store)

    def kind_of(part: Path) -> object | None:
        of_each = [_how_far(store, position, part) for position in loaded]
        return None if None in of_each else tuple(of_each)

    return kind_of


def _how_far(store: Path, position: LakePosition, part: Path) -> str | None:
    try:
        path = lake_path(store, part)
    except OSError:
        return None
    if path in position.claimed:
        return None
    if path in position.shipped:
        return SHIPPED
    claimed = {name_of(each) for each in position.claimed}
    stands_for = names_in(store, part)
    return None if any(position.path_of(name) or name in claimed for name in stands_for) else FORGOTTEN


def names_in(store: Path, part: Path) -> list[str]:
    """The names of the parts that one stands for, those first that were merged into it themselves."""
    folder = part.parent.relative_to(data_folder(store))
    return [f"{folder}/{table_of(part)}--{each.source}.parquet" for each in replaced_by(part)]


def partition_of(part: Path) -> Partition:
    """What a part is of: as its rows say, or its folder if it has none."""
    with pq.ParquetFile(part) as file:
        if file.metadata.num_rows:
            return Partition(**file.read_row_group(0, columns=list(Partition._fields)).slice(0, 1).to_pylist()[0])
    step = part.parent
    project, experiment = (unescape(each.name.partition("=")[2]) for each in (step.parent.parent, step.parent))
    return Partition(project, experiment, step_of(step))


@contextmanager
def choosing(store: Path, *, patience_sec: float = 60.0) -> Iterator[bool]:
    """Hold this to choose parts, for shipping or merging, until what was chosen is noted or merged. Waits for whoever
    does; gives False if that takes too long."""
    file = journal_folder(store) / "choosing.lock"
    deadline = time.monotonic() + patience_sec
    while True:
        with file_lock(file) as alone:
            if alone or time.monotonic() > deadline:
                yield alone
                return
        time.sleep(_LOOK_SEC)
