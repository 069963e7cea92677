"""Run several lanes of make targets at once, and the targets of a lane one after the other.

    python tools/side_by_side.py "test-with-ray test-with-verl" "test-with-weave test-with-otlp"

What a target prints comes in one piece, when it is done. In the end there is a line for each, with the time it took.
The exit code is 1 if any of them failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple


class Done(NamedTuple):
    """How a target went."""

    target: str
    code: int
    seconds: float


_printing = threading.Lock()


def run_lane(targets: list[str]) -> list[Done]:
    return [run(target) for target in targets]


def run(target: str) -> Done:
    started = time.monotonic()
    # Not a part of the make that called us: that one's jobs are none of ours.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    process = subprocess.run(
        ["make", "--no-print-directory", target, f"PYTHON={sys.executable}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        check=False,
    )
    done = Done(target, process.returncode, time.monotonic() - started)
    with _printing:
        sys.stdout.buffer.write(f"===== {target}\n".encode() + process.stdout)
        sys.stdout.buffer.flush()
    return done


def main() -> int:
    lanes = [lane.split() for lane in sys.argv[1:]]
    with ThreadPoolExecutor(max(1, len(lanes))) as pool:
        results = [done for lane in pool.map(run_lane, lanes) for done in lane]
    for done in results:
        sys.stdout.write(f"{'failed' if done.code else 'passed'} after {done.seconds:4.0f} s: {done.target}\n")
    return int(any(done.code for done in results))


if __name__ == "__main__":
    sys.exit(main())
