"""Files that are there whole or not at all.

One is written under a hidden name beside it, `.NAME.RANDOM.PID.HOST.new`, and gets its own name by a rename:

- A reader finds what was there before or all of the new content, never a part of it.
- A kill at any moment leaves either. At worst a hidden file stays, which nobody reads and the drainer removes;
  after a failure, such as a full disk, not even that.
- Several that write the same file, on several hosts too, do not disturb each other: the last one counts.
- A power cut may bring back what was before, and on some file systems leave the file empty; not with `durable`: then
  the content is on the disk before the name is, and the name is when the call returns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace.journal.host import host_tag


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """The hidden file to write. It becomes `path` at the end of the block, and is removed if that raises."""
    hidden = path.with_name(f".{path.name}.{os.urandom(4).hex()}.{os.getpid()}.{host_tag()}.new")
    try:
        yield hidden
        if durable:
            _sync(hidden)
        hidden.rename(path)
        if durable:
            _sync(path.parent)
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


def make_folders(path: Path, *, durable: bool = False) -> None:
    """Make a folder and those above it, if they are not there; with `durable`, a power cut cannot take them back."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    path.mkdir(parents=True, exist_ok=True)
    if durable:
        for folder in missing:
            _sync(folder.parent)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
