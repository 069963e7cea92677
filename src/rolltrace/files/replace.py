"""Files that are there whole or not at all.

One is written under a hidden name beside it, `.NAME.RANDOM.PID.HOST.new`, and gets its own name by a rename. At worst a
kill leaves a hidden file, which nobody reads and the drainer removes. A power cut may bring back what was before, and
on some file systems leave the file empty; not with `durable`, if the folder itself is there for good (`make_folder`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace.files.access import file_mode, sync_path
from rolltrace.files.host import host_tag


@contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int | None = None) -> Iterator[Path]:
    """The hidden file to write. It becomes `path` at the end of the block, and is removed if that raises.

    With a `mode`, it is there already when the block begins, empty.
    """
    hidden = path.with_name(f".{path.name}.{os.urandom(4).hex()}.{os.getpid()}.{host_tag()}.new")
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
    """Write a file of a store, new or in the place of an older one, in a folder that is there. Who may read it is
    decided in `access`. With `durable` a power cut cannot take it back, which costs two waits for the disk."""
    with replacing(path, durable=durable, mode=file_mode(path.parent)) as hidden, hidden.open("wb") as file:
        file.writelines([data] if isinstance(data, bytes) else data)
