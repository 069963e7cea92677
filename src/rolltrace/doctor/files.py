"""What can be checked without understanding the data: format, access, permissions, kinds of files, journals."""

from __future__ import annotations

import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rolltrace._address import address_in
from rolltrace._amounts import ago, counted
from rolltrace.doctor.finding import Finding, command, is_readable, mode_of, unreadable
from rolltrace.errors import FormatError
from rolltrace.files import is_shared, owner_of, write_problem
from rolltrace.journal import (
    Damage,
    SegmentReader,
    drainer_is_running,
    journal_files,
    journal_folder,
    journal_folders,
    strange_files,
    undrained_elsewhere,
)
from rolltrace.tables import STORE_FORMAT, TABLE_SCHEMAS, TableStore, hidden_files

_WALKED = ("tokenizers", "pass", "outbox", "unreadable", "live", *(schema.name for schema in TABLE_SCHEMAS))
_FOLDERS = (*_WALKED, "journal")
_MAX_NAMED = 20


def check_format(store: Path) -> Iterator[Finding]:
    page, tables = store / "format.json", TableStore(address_in(store))
    if tables.address.folder is None:
        yield Finding("ok", "format", f"tables at {tables.address.url}")
        return
    if not page.exists():
        if any(store.glob("*/_delta_log")):
            yield Finding(
                "problem", "format", "the version is missing", str(page), command("store drain --once", store)
            )
        elif journal_files(store):
            yield Finding("ok", "format", "nothing has been drained yet")
        else:
            yield Finding(
                "problem", "format", "this folder holds neither tables nor journals", str(store), "is it the right one?"
            )
        return
    try:
        tables.check_format()
    except FormatError as error:
        is_damaged = "damaged" in str(error)
        mend = f"echo '{{\"format\": {STORE_FORMAT}}}' > {shlex.quote(str(page))}"
        yield Finding(
            "problem", "format", str(error), str(page), mend if is_damaged else "use the rolltrace that wrote it"
        )
    except OSError as error:
        yield Finding("problem", "format", error.strerror or str(error), str(page), f"ls -l {shlex.quote(str(page))}")
    else:
        yield Finding("ok", "format", f"version {STORE_FORMAT}")


def check_access(store: Path) -> Iterator[Finding]:
    """Whether the store is somebody else's, or can only be read."""
    problem, owner = write_problem(store), owner_of(store)
    if problem is not None:
        yield Finding("note", "access", f"you can only read this store: {problem}", str(store))
    elif owner is not None:
        yield Finding("note", "access", f"the store belongs to {owner}; you can write to it too", str(store))
    else:
        yield Finding("ok", "access", "the store is yours")


def check_kinds(store: Path) -> Iterator[Finding]:
    """Whether everything is a plain file or folder, and no way out of the store. Readers leave alone what is not;
    journals have checks of their own."""
    strange = list(islice(_strange(store), _MAX_NAMED + 1))
    for path, what in strange[:_MAX_NAMED]:
        yield Finding("problem", "files", what, str(path), f"mv {shlex.quote(str(path))} /somewhere/else")
    if len(strange) > _MAX_NAMED:
        yield Finding("problem", "files", "and more of these", str(store), f"ls -lR {shlex.quote(str(store))}")
    if not strange:
        yield Finding("ok", "files", "plain files and folders only")


def _strange(store: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(os.scandir(store), key=lambda entry: entry.name):
        yield from _of(Path(entry.path), entry.name in _FOLDERS, entry.stat(follow_symlinks=False).st_mode)
    for name in _WALKED:
        if (store / name).is_symlink():
            continue
        for parent, folders, files in os.walk(store / name):
            for each in sorted((*folders, *files)):
                path = Path(parent, each)
                try:
                    mode = path.lstat().st_mode
                except OSError:  # removed since it was listed
                    continue
                yield from _of(path, None, mode)


def _of(path: Path, is_folder: bool | None, mode: int) -> Iterator[tuple[Path, str]]:
    if stat.S_ISLNK(mode):
        yield path, "a symbolic link, which is not followed"
    elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        yield path, "a pipe, socket or device, which is not opened"
    elif is_folder is True and not stat.S_ISDIR(mode):
        yield path, "a file where a folder should be"
    elif is_folder is False and stat.S_ISDIR(mode) and path.suffix == ".json":
        yield path, "a folder where a file should be"


def check_permissions(store: Path) -> Iterator[Finding]:
    has_problem = False
    shared = is_shared(store)
    wider = store.stat().st_mode & (0o007 if shared else 0o077)
    if wider:
        what = f"users other than its {'group' if shared else 'owner'} can access the store (mode {mode_of(store):03o})"
        do = f"chmod {'2770' if shared else '700'} {shlex.quote(str(store))}"
        yield Finding("note", "permissions", what, str(store), do)
    journals = store / "journal"
    if journals.is_dir() and not is_readable(journals):
        has_problem = True
        yield unreadable("permissions", journals)
    folders = journal_folders(store)
    for path in [
        *folders,
        *(path for kind in ("*.seg", "*.state") for folder in folders for path in folder.glob(kind)),
    ]:
        try:
            mode = mode_of(path)
        except OSError:  # drained since it was listed
            continue
        right = (0o770 if path.is_dir() else 0o660) if shared else (0o700 if path.is_dir() else 0o600)
        if mode & ~right:
            has_problem = True
            what = f"other users can access traced data (mode {mode:03o})"
            yield Finding("problem", "permissions", what, str(path), f"chmod {right:o} {shlex.quote(str(path))}")
        if not is_readable(path):
            has_problem = True
            yield unreadable("permissions", path)
    if not has_problem:
        yield Finding("ok", "permissions", "journals are the group's" if shared else "journals are private")


def check_journals(store: Path) -> Iterator[Finding]:
    states: Counter[str] = Counter()
    waiting: Counter[Path] = Counter()
    here, running = journal_folder(store), drainer_is_running(store)
    for path in journal_files(store):
        try:
            segment, damage = _read(path)
        except (FileNotFoundError, PermissionError):  # `_permissions` names what is not ours to read
            continue
        except OSError as error:
            do = f"mv {shlex.quote(str(path))} {shlex.quote(str(path) + '.bad')}"
            newer = isinstance(error, FormatError) and "newer" in str(error)
            yield Finding("problem", "journals", str(error), str(path), "pip install -U rolltrace" if newer else do)
            continue
        states[segment.state] += 1
        if segment.state != "live":
            waiting[path.parent] += 1
        for place in damage:
            what = f"{counted(place.size_bytes, 'byte')} cannot be read ({place.reason})"
            do = f"{command('journal dump', store)}  shows what can be read; the drainer stores all of that"
            yield Finding("problem", "journals", what, f"{path}, at byte {place.offset}", do)
    drainer = "a drainer is running" if running else "no drainer is running"
    if running is None:
        drainer = "whether a drainer is running is unknown, because its lock cannot be read"
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    yield Finding("ok", "journals", f"{summary}; {drainer} on this host")
    for folder, count in sorted(waiting.items()):
        what = f"{counted(count, 'finished journal file')} and no drainer is running"
        if folder != here:
            what = f"{counted(count, 'journal file')} of another host, which a drainer on that host drains"
            gone = command(f"store drain --host {shlex.quote(folder.name)}", store)
            yield Finding("note", "journals", what, str(folder), f"if that host is gone: {gone}")
        elif running is False:
            yield Finding("problem", "journals", what, str(folder), command("store drain --once", store))
    for host, undrained in undrained_elsewhere(store):
        files = "journal files" if undrained.files is None else counted(undrained.files, "journal file")
        what = f"{files} of another host on a disk of its own, not drained as of {ago(undrained.time_ns)}"
        yield Finding(
            "note",
            "journals",
            what,
            f"{host}: {undrained.folder}",
            f"on {host}: {command('store drain --once', store)}",
        )


def _read(path: Path) -> tuple[SegmentReader, list[Damage]]:
    segment = SegmentReader.open(path)
    damage = [item for item in segment if isinstance(item, Damage)]
    if damage and segment.state == "live":  # perhaps a record was being written just then
        segment = SegmentReader.open(path)
        damage = [item for item in segment if item in damage and isinstance(item, Damage)]
    return segment, damage


def check_strange(store: Path) -> Iterator[Finding]:
    """What stands among the journals and is drained by nobody."""
    for path, problem in strange_files(store):
        away = f"mv {shlex.quote(str(path))} /somewhere/else"
        yield Finding("problem", "journals", f"left alone: {problem}", str(path), away)
    for path in (path for folder in journal_folders(store) for path in sorted(folder.glob("*.seg.aside"))):
        again = f"mv {shlex.quote(str(path))} {shlex.quote(str(path).removesuffix('.aside'))}"
        what = "the drainer failed on this segment twice and set it aside; drainer.log says why"
        yield Finding("problem", "journals", what, str(path), f"to try it again, with a newer rolltrace: {again}")


def check_leftovers(store: Path) -> Iterator[Finding]:
    from rolltrace.keeper import abandoned_files

    has_problem = False
    for path in abandoned_files(store, youngest_sec=0.0):
        has_problem = True
        do = f"rm {shlex.quote(str(path))}"
        yield Finding("problem", "leftovers", "an unfinished file of a process that was killed", str(path), do)
    for path in hidden_files(TableStore(address_in(store))):
        has_problem = True
        what = "an unfinished data file of a process that was killed"
        yield Finding("problem", "leftovers", what, str(path), command("store compact", store))
    if not has_problem:
        yield Finding("ok", "leftovers", "none")


CHECKS = (check_format, check_access, check_kinds, check_permissions, check_journals, check_strange, check_leftovers)
