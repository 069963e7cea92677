"""Drain one segment in a process of its own, so that what takes a process down takes down that one.

    python -m rolltrace.drain.apart STORE SEGMENT PARENT

It dies with whoever started it, writes the parts and leaves the segment where it is. On its standard output it says
which trajectories ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from rolltrace._guard import logger
from rolltrace.errors import FormatError

_FAULT = 70
"""Exit code: an exception, which it has logged."""
_FOREIGN = 71
"""Exit code: not a journal of ours."""
_NO_ROOM = 72
"""Exit code: the store cannot be written."""
_OF_ITS_OWN = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP,
    signal.SIGKILL, signal.SIGXCPU,
}  # fmt: skip
"""Deaths that a segment can be the cause of; SIGKILL is how the kernel ends one that takes all memory."""
_PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """Draining the segment failed, and the segment is why."""


class NotTried(Exception):
    """No process could be started, or somebody ended it: nothing is known of the segment."""


def drain_apart(store: Path, segment: Path) -> bytes:
    """Write the parts of a segment; what ended in it, as msgpack of `Ended`.

    Raises:
        FormatError: it is no journal of ours.
        OSError: the store cannot be written.
        Failed: the process died or met an exception.
        NotTried: it did not come so far.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rolltrace.drain.apart", str(store), str(segment), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except OSError as fault:
        raise NotTried(f"no process can be started: {fault}") from fault
    if done.returncode == _FOREIGN:
        raise FormatError(f"{segment} is not a rolltrace journal, or its header is lost")
    if done.returncode == _FAULT:
        raise Failed("an exception, logged above")
    if done.returncode < 0 and signal.Signals(-done.returncode) in _OF_ITS_OWN:
        raise Failed(f"the process that drained it died of {signal.Signals(-done.returncode).name}")
    if done.returncode == _NO_ROOM:
        raise OSError(f"the store {store} cannot be written, said the process that drained {segment.name}")
    if done.returncode != 0:
        raise NotTried(f"the process that was to drain it ended with {done.returncode}")
    return done.stdout


def _die_with_parent(parent: int) -> None:
    """A drainer that is killed must not leave somebody behind who still writes for it."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory is short, rather this one than the training
    except (AttributeError, OSError):  # not Linux
        pass
    if os.getppid() != parent:
        os._exit(1)


def main(store: Path, segment: Path) -> int:
    from rolltrace.drain.drainer import Drainer

    try:
        ended = Drainer(store).write_parts(segment)
    except FormatError:
        return _FOREIGN
    except OSError as fault:  # a full disk, most likely: not the segment's fault
        logger.warning("%s", fault)
        return _NO_ROOM
    except Exception:
        logger.exception("draining %s", segment)
        return _FAULT
    sys.stdout.buffer.write(msgspec.msgpack.encode(ended))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    _die_with_parent(int(sys.argv[3]))
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
