"""Files that only one of several hosts can make: whoever comes second finds the name taken.

A file is written whole under a hidden name and gets its own name by `link`, which fails if the name is taken. That is
all that is asked of a file system which several hosts share: NFS, Lustre and WekaFS decide it on the server. `flock`
may be missing there, a rename takes the place of what is there, and a file made with O_EXCL is empty at first.

Where there are no links (FAT, some FUSE mounts), the name is looked up and then given by a rename. That is enough for
the processes of one host, which hold its lock.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rolltrace.files.access import file_mode, sync_path
from rolltrace.files.replace import hidden_name

_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL}


def create_file(path: Path, data: bytes, *, durable: bool = False) -> bool:
    """Write a file of a store if there is none of this name; whether this call has made it. Its folder is there."""
    hidden = hidden_name(path)
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, file_mode(path.parent))
    os.close(descriptor)
    try:
        hidden.write_bytes(data)
        if durable:
            sync_path(hidden)
        _give_name(hidden, path)
        if durable:
            sync_path(path.parent)
    except FileExistsError:
        return False
    finally:
        hidden.unlink(missing_ok=True)
    return True


def _give_name(hidden: Path, path: Path) -> None:
    try:
        os.link(hidden, path)
    except FileExistsError:
        # An answer of the server may be lost, and the request repeated: then it is ours all the same.
        if not os.path.samefile(hidden, path):
            raise
    except OSError as fault:
        if fault.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, "there is such a file", str(path)) from None
        hidden.rename(path)
