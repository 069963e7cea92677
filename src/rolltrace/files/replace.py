"""Files that are there whole or not at all.

One is written under a hidden name beside it, `.NAME.RANDOM.PID.HOST.new`, and gets its own name by a rename:

- A reader finds what was there before or all of the new content, never a part of it.
- A kill at any moment leaves either. At worst a hidden file stays, which nobody reads and the drainer removes;
  after a failure, such as a full disk, not even that.
- Several that write the same file, on several hosts too, do not disturb each other: the last one counts.
- A power cut may bring back what was before, and on some file systems leave the file empty; not with `durable`: then
  the content is on the disk before the name is, and the name is when the call returns. The folder itself must be there
  for good: see `make_folder`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace.files.access import file_mode, sync_path
from rolltrace.files.host import host_tag


def hidden_name(path: Path) -> Path:
    """A name to write a file under until it is whole: it tells who writes it."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.{os.getpid()}.{host_tag()}.new")


@contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int | None = None) -> Iterator[Path]:
    """The hidden file to write. It becomes `path` at the end of the block, and is removed if that raises.

    With a `mode`, it is there already when the block begins, empty.
    """
    hidden = hidden_name(path)
    try:
        if mode is not None:
            descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.fchmod(descriptor, mode)
            os.close(descriptor)
        yield hidden
        if durable:
            sync_path(hidden)
        hidden.rename(path)
        if durable:
            sync_path(path.parent)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Write a file of a store, new or in the place of an older one. Who may read it is decided in `access`.

    Args:
        path: The file; its folder is there.
        data: Its content, at once or in pieces.
        durable: A power cut cannot take it back. Costs two waits for the disk.
    """
    with replacing(path, durable=durable, mode=file_mode(path.parent)) as hidden, hidden.open("wb") as file:
        file.writelines([data] if isinstance(data, bytes) else data)
