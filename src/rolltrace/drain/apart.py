"""Shape the next records of a journal in a process of its own, so that what takes a process down takes down that one.

    python -m rolltrace.drain.apart STORE FOLDER JOURNAL PARENT

It dies with whoever started it, and writes nothing: its exit code says whether the records can be shaped.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from rolltrace._guard import logger

_ERROR = 70
"""Exit code: an exception, which it has logged."""
_OWN_DEATHS = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP,
    signal.SIGKILL, signal.SIGXCPU,
}  # fmt: skip
"""Deaths that a record can be the cause of; SIGKILL is how the kernel ends one that takes all memory."""
_PR_SET_PDEATHSIG = 1


class NotTriedError(Exception):
    """No process could be started, or somebody ended it: nothing is known of the records."""


def try_apart(store: Path, folder: Path, journal: str) -> str | None:
    """Shape the next records of a journal elsewhere; what went wrong, or None if nothing did.

    Raises:
        NotTriedError: it did not come so far.
    """
    command = [sys.executable, "-m", "rolltrace.drain.apart", str(store), str(folder), journal, str(os.getpid())]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise NotTriedError(f"no process can be started: {error}") from error
    if done.returncode == _ERROR:
        return "an exception, logged above"
    if done.returncode < 0 and signal.Signals(-done.returncode) in _OWN_DEATHS:
        return f"the process that shaped it died of {signal.Signals(-done.returncode).name}"
    if done.returncode != 0:
        raise NotTriedError(f"the process that was to shape it ended with {done.returncode}")
    return None


def _die_with_parent(parent: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory is short, rather this one than the training
    except (AttributeError, OSError):  # not Linux
        pass
    if os.getppid() != parent:
        os._exit(1)


def main(store: Path, folder: Path, journal: str) -> int:
    from rolltrace.drain.follower import Follower

    try:
        Follower(store, folders=frozenset({folder})).shape_next(journal)
    except Exception:
        logger.exception("shaping %s", journal)
        return _ERROR
    return 0


if __name__ == "__main__":
    _die_with_parent(int(sys.argv[4]))
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
