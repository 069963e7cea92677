"""Files that a killed process did not finish: hidden, read by nobody, and removed after a while.

Their names tell who wrote them (`journal.replace`). One of this host goes when its process is gone; one of another host
when it is old: if its writer was only suspended, it finds the file missing and does its work again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from rolltrace.journal import host_tag, journal_folder

_NAME = re.compile(r"\..+\.(?P<pid>\d+)(?:\.(?P<host>h[0-9a-f]{8}))?\.new")
_SEGMENT = re.compile(r"\d+T\d+-(?P<pid>\d+)-[0-9a-f]+(?:-(?P<host>h[0-9a-f]{8}))?-\d+\.new")
_YOUNGEST_SEC = 60.0
_OLD_SEC = 3600.0


def unfinished_files(store: Path) -> Iterator[Path]:
    """Every file of a store that is being written under a hidden name, or was when its process was killed."""
    yield from sorted(store.glob(".*.new"))
    for name in ("data", "summary", "blobs", "tokenizers", "outbox", "journal"):
        for folder, _, files in os.walk(store / name):
            yield from sorted(Path(folder, file) for file in files if _NAME.fullmatch(file) or _SEGMENT.fullmatch(file))


def is_abandoned(path: Path, *, youngest_sec: float = _YOUNGEST_SEC) -> bool:
    """Whether nobody will finish an unfinished file."""
    match = _NAME.fullmatch(path.name) or _SEGMENT.fullmatch(path.name)
    try:
        age_sec = time.time() - path.stat().st_mtime
    except OSError:
        return False
    if match is None or match["host"] not in (None, host_tag()):
        return age_sec > _OLD_SEC
    # A clock that was set back must not keep it for ever.
    return (age_sec > youngest_sec or age_sec < -_OLD_SEC) and not _is_running(int(match["pid"]))


def remove_abandoned(store: Path, *, youngest_sec: float = _YOUNGEST_SEC) -> int:
    """Remove what nobody will finish, except in the journal folders of other hosts; how many files that were."""
    count = 0
    journals, mine = store / "journal", journal_folder(store)
    for path in unfinished_files(store):
        if journals in path.parents and path.parent != mine:
            continue
        if is_abandoned(path, youngest_sec=youngest_sec):
            path.unlink(missing_ok=True)
            count += 1
    return count


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
