"""What draining costs and what the store takes: `python -m benchmarks.store [--quick] [--json FILE]`.

The realistic workload is traced, drained and compacted. Sizes and speeds are against its raw JSON, one line per op,
which is what a rollout dump would be.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.replay import record
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.workload import Trajectory, generate
from rolltrace.drain import Drainer
from rolltrace.store import compact

# Not ru_maxrss: a child process begins with that of its parent, here the whole workload.
DRAIN_AND_TELL = """
import pathlib, re, sys
from rolltrace.keeper import collect_rarely, run_once
collect_rarely()
run_once(pathlib.Path(sys.argv[1]))
print(re.search("VmHWM: *([0-9]+)", pathlib.Path("/proc/self/status").read_text().replace("\\t", " "))[1])
"""

SECTION = "store: the realistic workload, traced, drained, compacted"


def measure(trajectories: list[Trajectory]) -> Iterator[Row]:
    """Rows of the table."""
    raw_bytes = sum(len(json.dumps(payload)) for each in trajectories for payload in each.payloads())
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        record(store / "warm-up", trajectories[:1])
        Drainer(store / "warm-up").drain()
        record(store / "real", trajectories)
        drainer = Drainer(store / "real")
        begin = time.process_time()
        drainer.drain()
        drain_sec = time.process_time() - begin
        drained = _size(store / "real")
        compact(store / "real")
        compacted = _size(store / "real")
        record(store / "memory", trajectories)
        drain = [sys.executable, "-c", DRAIN_AND_TELL, str(store / "memory")]
        memory_mib = int(subprocess.run(drain, check=True, capture_output=True, text=True).stdout) / 1024
    yield Row(SECTION, "raw JSON", raw_bytes / 1e6, "MB")
    yield Row(SECTION, "drained, of raw JSON", raw_bytes / 1e6 / drain_sec, "MB/s", at_least(120))
    yield Row(SECTION, "raw JSON / store, as drained", raw_bytes / drained, "x")
    yield Row(SECTION, "raw JSON / store, compacted", raw_bytes / compacted, "x", at_least(20))
    yield Row(SECTION, "most memory of the drainer", memory_mib, "MiB", at_most(1024))


def _size(store: Path) -> int:
    return sum(part.stat().st_size for part in store.rglob("*.parquet"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows = list(measure(generate(8 if options.quick else 200)))
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
