"""Where files of lakes are kept on this machine, and how much of them.

    CACHE/lakes/LAKE/...        a folder for each lake (mirror.py)

ROLLTRACE_CACHE names the folder (~/.cache/rolltrace if not set), ROLLTRACE_CACHE_BYTES how much it may hold (10 GB).
What was not used for longest goes first. A file that goes stays as a hollow one: of the same name and size, all holes,
and dated at the beginning of time; so a folder lists the same files whether they are here or not. What one question
needs is here while it is asked, also if that is more than the cache may hold.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from rolltrace._amounts import size_of
from rolltrace.files import file_mode, make_folder, replacing

FOLDER_VARIABLE = "ROLLTRACE_CACHE"
BYTES_VARIABLE = "ROLLTRACE_CACHE_BYTES"
_MOST_BYTES = "10GB"
_BLOBS = "blobs"
_LEFT_SHARE = 0.9
"""How full it is after some was removed, so that not every file that comes makes another go."""


def cache_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(os.path.abspath(os.path.expanduser(named)))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rolltrace"


def most_bytes() -> int:
    """How much the cache may hold.

    Raises:
        ConfigError: that is no size.
    """
    return size_of(BYTES_VARIABLE, os.environ.get(BYTES_VARIABLE) or _MOST_BYTES)


def is_hollow(file: Path) -> bool:
    """Whether a file is not here but only named; True also if it is not even that."""
    try:
        return file.stat().st_mtime_ns == 0
    except FileNotFoundError:
        return True


def make_hollow(file: Path, size: int) -> None:
    """Name a file that is not here, or take away its content."""
    make_folder(file.parent)
    with replacing(file, mode=file_mode(file.parent)) as hidden:
        os.truncate(hidden, size)
        os.utime(hidden, ns=(0, 0))


def note_use(file: Path) -> None:
    """Remember that a file was used just now. The time of its content stays: DuckDB knows files by it."""
    try:
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))
    except FileNotFoundError:  # made hollow by another process; whoever reads it fetches it again
        pass


def make_room(keep: Collection[Path]) -> int:
    """Make files hollow until the cache holds no more than it may, but not these; how many bytes it holds now."""
    files: list[tuple[int, int, Path]] = []
    for folder, _, names in os.walk(cache_folder() / "lakes"):
        for name in names:
            path = Path(folder, name)
            if not name.startswith(".") and (path.suffix == ".parquet" or path.parent.parent.name == _BLOBS):
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue
                if status.st_mtime_ns:
                    files.append((status.st_atime_ns, status.st_size, path))
    total, limit = sum(size for _, size, _ in files), most_bytes()
    if total <= limit:
        return total
    protected = set(keep)
    for _, size, path in sorted(files):
        if total <= limit * _LEFT_SHARE:
            break
        if path not in protected:
            if path.suffix == ".parquet":
                make_hollow(path, size)
            else:
                path.unlink(missing_ok=True)
            total -= size
    return total
