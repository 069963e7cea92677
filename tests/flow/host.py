"""Run a program as another host: with a name of its own (a UTS namespace), and a clock that is ahead or behind.

python -m tests.flow.host NAME CLOCK_SEC -m MODULE ARGUMENTS...
python -m tests.flow.host NAME CLOCK_SEC -c PROGRAM ARGUMENTS...
"""

from __future__ import annotations

import ctypes
import os
import runpy
import socket
import subprocess
import sys
import time
from pathlib import Path

_CLONE_NEWUTS = 0x04000000


def become(name: str, clock_sec: float = 0.0) -> None:
    """Be this host from here on, in this process and all that it starts."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + clock_sec
    time.time_ns = lambda: real_ns() + round(clock_sec * 1e9)


def command(name: str, *arguments: str, clock_sec: float = 0.0) -> list[str]:
    """The command that runs Python with these arguments on a host."""
    return [sys.executable, "-m", "tests.flow.host", name, str(clock_sec), *arguments]


def can_be_hosts() -> bool:
    """Whether namespaces can be made here."""
    process = os.fork()
    if not process:
        os._exit(1 if ctypes.CDLL(None).unshare(_CLONE_NEWUTS) else 0)
    return os.waitpid(process, 0)[1] == 0


def interleavings(module: str, folder: Path, every: int, how: str, first: int) -> int:
    """How many moments at which a host is suspended or killed a stage has tried; each has gone well."""
    words = [str(folder), str(every), how, str(first)]
    root = Path(__file__).parents[2]
    stage = subprocess.run([sys.executable, "-m", module, *words], cwd=root, capture_output=True, text=True)
    assert stage.returncode == 0, stage.stdout + stage.stderr
    return int(stage.stdout)


if __name__ == "__main__":
    become(sys.argv[1], float(sys.argv[2]))
    kind, what = sys.argv[3:5]
    sys.argv = [what, *sys.argv[5:]]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<program>", "exec"), {"__name__": "__main__"})
