"""A row of numbered files that several hosts add to, each number once: who decided what, in an order that all agree on.

    FOLDER/00000041.json
    FOLDER/00000042.json      the newest one says how things are

Whoever wants to decide something looks at the newest number first, then at everything that the decision depends on, and
then adds the next number. If somebody else did so meanwhile, the number is taken, and one has to look again. So a host
that was suspended between looking and deciding cannot decide: however late it is, its number is taken.

Older files may be removed, the newest one never. So a number that is free need not be the next one: `add` looks again
after it has added the file, and takes it back if there are higher numbers. Nobody goes by a file that is not the newest
without other evidence, so one that a kill leaves there does no harm.

A file is written whole under a hidden name and gets its own name by `link`, which fails if the name is taken. That is
all that is asked of a file system which several hosts share: NFS, Lustre and WekaFS decide it on the server. `flock`
may be missing there, a rename takes the place of what is there, and a file made with O_EXCL is empty at first. Where
there are no links (FAT, some FUSE mounts), the name is looked up and then given by a rename. That is enough for the
processes of one host, which hold its lock.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from rolltrace.files.access import make_folder, sync_path
from rolltrace.files.replace import hidden_name, replace_file

_NAME = re.compile(r"(\d{8,})\.json")
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL}


class NumberedFiles:
    """The numbered files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """Those that are there, in order."""
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def newest(self) -> int:
        """The highest number; 0 if there is none."""
        return max(self.numbers(), default=0)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.json"

    def add(self, number: int, data: bytes) -> bool:
        """Add the file with this number; False if somebody else has added it, or a higher one."""
        make_folder(self.folder)
        if not create_file(self.path(number), data):
            return False
        if self.newest() == number:
            return True
        self.path(number).unlink(missing_ok=True)
        return False


def create_file(path: Path, data: bytes) -> bool:
    """Write a file for good if there is none of this name; whether this call has made it. Its folder is there."""
    hidden = hidden_name(path)
    replace_file(hidden, data, durable=True)
    try:
        _give_name(hidden, path)
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
