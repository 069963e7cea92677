"""Files that are there whole or not at all.

One is written under a hidden name beside it, `.NAME.RANDOM.PID.new`, and gets its own name by a rename. That promises:

- A reader finds what was there before or all of the new content, never a part of it.
- A kill at any moment leaves either. At worst a hidden file stays, which nobody reads and `rolltrace doctor` names;
  after a failure, such as a full disk, not even that.
- Several that write the same file, on several hosts too, do not disturb each other: the last one counts.
- A power cut may bring back what was before, and on some file systems leave the file empty; not with `durable`: then
  the content is on the disk before the name is, and the name is when the call returns. The folder itself must be there
  for good: see `make_folders`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """The hidden file to write. It becomes `path` at the end of the block, and is removed if that raises."""
    hidden = path.with_name(f".{path.name}.{os.urandom(4).hex()}.{os.getpid()}.new")
    try:
        yield hidden
        if durable:
            sync_path(hidden)
        hidden.rename(path)
        if durable:
            sync_path(path.parent)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes | Iterable[bytes], *, durable: bool = False, private: bool = False) -> None:
    """Write a file, new or in the place of an older one.

    Args:
        path: The file; its folder is there.
        data: Its content, at once or in pieces.
        durable: A power cut cannot take it back. Costs two waits for the disk.
        private: Nobody else may read it, from its first byte on; else as the umask says.
    """
    with replacing(path, durable=durable) as hidden:
        made = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
        with open(made, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)


def make_folders(path: Path, *, durable: bool = False) -> list[Path]:
    """Make a folder, for the owner alone, and those above it that are missing, as the umask says.

    Args:
        path: The folder; it may be there already.
        durable: A power cut cannot take them back.

    Returns:
        The folders that have a new one in them: `sync_path` on each is what makes the new ones durable, also later.
    """
    missing: list[Path] = []
    folder = path
    while not folder.is_dir() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    changed: list[Path] = []
    for each in reversed(missing):
        each.mkdir(mode=0o700 if each == path else 0o777, exist_ok=True)
        changed.append(each.parent)
        if durable:
            sync_path(each.parent)
    return changed


def sync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk itself."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
