"""Whether everything in a store is of the kind that it should be: plain files and folders, and no way out of it.

What is not is left alone by every reader; here it is named. Journals have checks of their own.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rolltrace.doctor.finding import Finding
from rolltrace.tables import TABLE_SCHEMAS

_WALKED = ("tokenizers", "pass", "outbox", "unreadable", "live", *(schema.name for schema in TABLE_SCHEMAS))
_FOLDERS = (*_WALKED, "journal")
_MOST_NAMED = 20


def check_kinds(store: Path) -> Iterator[Finding]:
    strange = list(islice(_strange(store), _MOST_NAMED + 1))
    for path, what in strange[:_MOST_NAMED]:
        yield Finding("problem", "files", what, str(path), f"mv {shlex.quote(str(path))} /somewhere/else")
    if len(strange) > _MOST_NAMED:
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
