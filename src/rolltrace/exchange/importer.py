"""Reads files of records into a store: bad lines are reported, the rest is kept, nothing is there twice.

A file is known by the hash of its content, so importing it again brings nothing new. The id of a trajectory that has
none comes from its line, so a file that has grown or was mended adds only what is new: what the store has from
elsewhere is left out and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from rolltrace.drain import Redactor
from rolltrace.errors import ConfigError, StoreError
from rolltrace.exchange.draft import Draft, ImportedPlace, ImportedRow
from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.import_tables import ImportTables
from rolltrace.exchange.source_lines import Line, json_records, open_regular
from rolltrace.files import is_store
from rolltrace.record import FLAGS

_DIGITS = re.compile(r"([0-9]+)")
_CHUNK_BYTES = 64 << 20
"""How much text goes into one batch. If this changed, a file whose import was killed could be there twice."""


class ImportTarget(NamedTuple):
    """Where imported trajectories go."""

    store: Path
    project: str | None = None
    experiment: str | None = None
    validate: bool = False
    """They are validation rollouts, whatever the file says."""
    rewards: Mapping[str, float] | None = None
    """The columns that make up the reward, with their weights, for formats that leave it open."""

    def named(self) -> tuple[str, str]:
        """Project and experiment, for formats that do not tell them."""
        if not self.project or not self.experiment:
            raise ConfigError("this format names no project and experiment; pass --project and --experiment")
        return self.project, self.experiment


LineReader = Callable[[dict[str, Any], Line], list[ImportedRow]]
"""Makes the rows of one trajectory; the first is of the table `trajectories`."""


class Source:
    """One file to import."""

    def __init__(self, path: Path, target: ImportTarget) -> None:
        self.path = path
        self.target = target
        self.time_ns = path.stat().st_mtime_ns
        self.split: Callable[[Path], Iterator[Line]] = json_records
        """How the file is cut into records."""
        self._occurrences: Counter[bytes] = Counter()
        self._salt: tuple[object, ...] = ()
        digest = xxhash.xxh3_128()
        with open_regular(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
        self.name = f"import-{digest.hexdigest()}{'v' if target.validate else ''}"

    def told_by_path(self, *facts: object) -> None:
        """Take what only the path says as part of the content: the same bytes elsewhere are other trajectories."""
        self._salt += facts
        self.name += f"-{xxhash.xxh3_64_hexdigest(repr(facts).encode('utf-8', 'backslashreplace'))}"

    def named_by(self, *identity: object) -> None:
        """Take the file for what it is called, not for its content: when it has grown, it replaces what it was."""
        self.name = f"import-{self.id_of(*identity)}"

    def id_of(self, *identity: object) -> str:
        """An id of something that is known by its name."""
        whole_identity = (*identity, self.target.project, self.target.experiment, self.target.validate)
        return xxhash.xxh3_128_hexdigest(repr(whole_identity).encode("utf-8", "backslashreplace"))

    def trajectory_id(self, line: Line, *salt: object) -> str:
        """An id for the trajectory of a line. The same line a second time is another trajectory."""
        digest = xxhash.xxh3_128()
        for item in (self.target.project, self.target.experiment, self.target.validate, *self._salt, *salt):
            digest.update(repr(item).encode("utf-8", "backslashreplace") + b"\0")
        digest.update(line.raw)
        same = digest.digest()
        number = self._occurrences[same]
        self._occurrences[same] += 1
        return xxhash.xxh3_128_hexdigest(same + number.to_bytes(8, "big"))

    def start_ns(self, line: Line) -> int:
        """When the trajectory of a line began, where nothing says so: as the file was written, in its order."""
        return self.time_ns + 1000 * line.number

    def draft(
        self,
        line: Line,
        name: str,
        trajectory_id: str | None = None,
        *,
        start_ns: int | None = None,
        validate: bool = False,
        **where: Any,
    ) -> Draft:
        """Begin the trajectory of a line, in the project and experiment that were asked for."""
        project, experiment = self.target.named()
        own_id, validate = trajectory_id or self.trajectory_id(line), validate or self.target.validate
        place = ImportedPlace(own_id, project, experiment, validate=validate, **where)
        return Draft(place, name, start_ns or self.start_ns(line))

    def lines(self) -> Iterator[Line]:
        """The records of the file; a file that cannot be read at all is one with a problem."""
        try:
            yield from self.split(self.path)
        except Malformed as error:
            yield Line(0, b"", problem=str(error))


class BadLine(NamedTuple):
    """A line, or with number 0 a whole file, that could not be imported."""

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}" if self.number else f"{self.path}: {self.reason}"


class ImportReport(NamedTuple):
    """What an import did."""

    imported: int
    """Trajectories that are new in the store."""
    already_there: int
    """Trajectories that it had before, from the same file or from elsewhere."""
    malformed: int
    """Lines, and files that could not be read."""


def find_files(folder: Path, *patterns: str, name: str = ".*") -> list[Path]:
    """The files of a folder that the first pattern with any finds, 9 before 10; `name` is what all of a name match."""
    for pattern in patterns:
        files = [each for each in folder.glob(pattern) if re.fullmatch(name, each.name) and not each.is_dir()]
        if files:
            return sorted(files, key=lambda each: [int(p) if p.isdecimal() else p for p in _DIGITS.split(str(each))])
    return []


def import_files(
    reader_of: Callable[[Source], LineReader],
    paths: Sequence[Path],
    target: ImportTarget,
    *,
    files_of: Callable[[Path], list[Path]] = lambda folder: find_files(folder, "*.jsonl"),
    on_bad: Callable[[BadLine], None] = lambda bad: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportReport:
    """Import files into a store, which is made if there is none.

    Args:
        reader_of: Makes the reader of a file, from `IMPORTS`.
        paths: The files, and folders of them.
        target: Where to.
        files_of: Which files of a folder are meant, from `IMPORTS`.
        on_bad: Called for each line that cannot be imported.
        progress: Called with the bytes read so far, and all there are.

    Raises:
        ConfigError: the format needs a project and an experiment that were not given.
        StoreError: the store cannot be written.
    """
    if target.store.is_dir() and any(target.store.iterdir()) and not is_store(target.store):
        raise StoreError(f"{str(target.store)!r} is not a store; name a new folder or a store last")
    run = _Import(on_bad, progress)
    sources: list[Source] = []
    for path in paths:
        files = files_of(path) if path.is_dir() else [path]
        if not files:
            run.report(path, 0, "no file of this format in this folder")
        for file in files:
            try:
                sources.append(Source(file, target))
            except OSError as error:
                run.report(file, 0, error.strerror or str(error))
    readers = [reader_of(source) for source in sources]
    run.total = sum(source.path.stat().st_size for source in sources)
    imported = already_there = 0
    tables, redactor = ImportTables(target.store), Redactor.of(target.store)
    for source, reader in zip(sources, readers):
        added, skipped = run.add(source, reader, tables, redactor)
        imported += added
        already_there += skipped
    progress(run.total, run.total)
    return ImportReport(imported, already_there, run.malformed)


class _Import:
    """One import: what was wrong in it, and how far it is."""

    def __init__(self, on_bad: Callable[[BadLine], None], progress: Callable[[int, int], None]) -> None:
        self._on_bad, self._progress = on_bad, progress
        self.malformed = self._done = self.total = 0

    def report(self, path: Path, number: int, reason: str) -> None:
        self.malformed += 1
        self._on_bad(BadLine(path, number, reason))

    def add(self, source: Source, reader: LineReader, tables: ImportTables, redactor: Redactor) -> tuple[int, int]:
        """Import a file; gives how many trajectories are new, and how many were there."""
        read_ids, foreign, before = set[str](), tables.list_foreign(source.name), len(tables.ids)
        rows: list[ImportedRow] = []
        size = chunk = 0
        for line in source.lines():
            try:
                read_rows = _read_line(reader, line, read_ids)
            except Malformed as error:
                self.report(source.path, line.number, str(error))
                continue
            except RecursionError:
                self.report(source.path, line.number, "nested too deeply")
                continue
            if read_rows[0].fields["trajectory_id"] not in foreign:
                rows += [each._replace(fields=redactor.encoded_row(*each)) for each in read_rows]
            # Counted whether it was there or not, and without flags, which a setting turns off: the same file is
            # always cut into the same chunks.
            texts = (text for each in read_rows if each.table is not FLAGS for text in each.fields.values())
            size += sum(len(text) for text in texts if isinstance(text, str))
            self._done += len(line.raw)
            self._progress(min(self._done, self.total - 1), self.total)
            if size >= _CHUNK_BYTES:
                tables.commit(source.name, chunk, rows)
                rows, size, chunk = [], 0, chunk + 1
        tables.commit(source.name, chunk, rows)
        tables.add_ids(read_ids, foreign)
        added = len(tables.ids) - before
        return added, len(read_ids) - added


def _read_line(reader: LineReader, line: Line, read_ids: set[str]) -> list[ImportedRow]:
    if line.problem is not None:
        raise Malformed(line.problem)
    if not isinstance(line.value, dict):
        raise Malformed(f"a record is a JSON object, not {type(line.value).__name__}")
    rows = reader(line.value, line)
    trajectory_id = rows[0].fields["trajectory_id"]
    if trajectory_id in read_ids:
        raise Malformed(f"trajectory_id {trajectory_id} was in this file before")
    read_ids.add(trajectory_id)
    return rows
