"""Which unfinished files of a store nobody will finish.

Files that a killed process did not finish are hidden, and read by nobody. Their names tell who wrote them. One of this
host goes when its process is gone; one of another host when it is old: if its writer was only suspended, it finds the
file missing and does its work again. Data files of tables are not among them: `vacuum` removes what no table has.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from rolltrace.files import host_name, host_tag
from rolltrace.journal import journal_folder

_UNFINISHED = re.compile(r"\..+\.(?P<pid>\d+)(?:\.(?P<host>h[0-9a-f]{8}))?\.new")
_SEGMENT = re.compile(r"\d+T\d+-(?P<pid>\d+)-[0-9a-f]+(?:-(?P<host>h[0-9a-f]{8}))?-\d+\.new")
_YOUNGEST_SEC = 60.0
_OLD_SEC = 3600.0


def unfinished_files(store: Path) -> Iterator[Path]:
    """Every file of a store that is being written under a hidden name, or was when its process was killed."""
    yield from sorted(store.glob(".*.new"))
    for name in ("tokenizers", "outbox", "live", "pass", "unreadable", "journal"):
        for folder, _, files in os.walk(store / name):
            yield from sorted(Path(folder, file) for file in files if is_unfinished(Path(folder, file)))
    if store not in journal_folder(store).parents:
        yield from sorted(path for path in journal_folder(store).glob("*.new") if is_unfinished(path))


def is_unfinished(path: Path) -> bool:
    """Whether a file is being written, by its name."""
    return bool(_UNFINISHED.fullmatch(path.name) or _SEGMENT.fullmatch(path.name))


def is_abandoned(path: Path, *, youngest_sec: float = _YOUNGEST_SEC) -> bool:
    """Whether nobody will finish an unfinished file."""
    match = _UNFINISHED.fullmatch(path.name) or _SEGMENT.fullmatch(path.name)
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
    journals, mine = store / "journal", store / "journal" / host_name()
    for path in unfinished_files(store):
        if journals in path.parents and mine not in path.parents:
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
