"""How far a process grows while it traces; run as its own process, since a grown one cannot be reset."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.replay import sync_replay
from benchmarks.tracers import Rolltrace
from benchmarks.workload import generate

TRAJECTORIES = 8


def growth_mib(payload_bytes: int) -> float:
    """Returns the peak growth in MiB of a fresh process that traces so many bytes of payload."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(payload_bytes)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(json.loads(done.stdout))


def _trace(payload_bytes: int) -> float:
    trajectories = generate(TRAJECTORIES)
    sizes = [trajectory.size_bytes() for trajectory in trajectories]
    replay = sync_replay(tracer := Rolltrace())
    with tracer.running():
        replay(trajectories[0])
        baseline = peak = _resident_bytes()
        traced = number = 0
        while traced < payload_bytes:
            replay(trajectories[number % TRAJECTORIES])
            traced += sizes[number % TRAJECTORIES]
            number += 1
            peak = max(peak, _resident_bytes())
    return (peak - baseline) / 2**20


def _resident_bytes() -> int:
    # Pages of the mapped journal are counted too: they are the kernel's to take back, but a user who
    # watches the process sees them.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


if __name__ == "__main__":
    json.dump(_trace(int(sys.argv[1])), sys.stdout)
