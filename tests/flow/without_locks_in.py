"""Files in one folder cannot be locked, as on a network file system without locks; those elsewhere can.

    import tests.flow.without_locks_in     in a process whose WITHOUT_LOCKS_IN names the folder

`environment` makes all Python processes do so, those that they start included.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_flock = fcntl.flock


def _refuse_some(fd: int, operation: int) -> None:
    if os.path.realpath(f"/proc/self/fd/{fd}").startswith(os.environ["WITHOUT_LOCKS_IN"] + "/"):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    _flock(fd, operation)


if "WITHOUT_LOCKS_IN" in os.environ:
    fcntl.flock = _refuse_some


def environment(folder: Path, scratch: Path) -> dict[str, str]:
    """Variables for processes that cannot lock files in a folder."""
    scratch.mkdir(exist_ok=True)
    (scratch / "sitecustomize.py").write_text(Path(__file__).read_text())
    return {**os.environ, "PYTHONPATH": str(scratch), "WITHOUT_LOCKS_IN": str(folder.resolve())}
