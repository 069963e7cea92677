"""What draining costs and what the store takes: `python -m benchmarks.store [--quick] [--json FILE]`.

The realistic workload is traced, drained and settled. Sizes and speeds are against its raw JSON, one line per op,
which is what a rollout dump would be.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.replay import record
from benchmarks.stores import drain, run_command, settle, table_bytes
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.workload import Trajectory, generate

SECTION = "store: the realistic workload, traced, drained, settled"


def measure(trajectories: list[Trajectory]) -> Iterator[Row]:
    """Rows of the table."""
    raw_bytes = sum(len(json.dumps(payload)) for each in trajectories for payload in each.payloads())
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        record(store / "warm-up", trajectories[:1])
        drain(store / "warm-up")
        record(store / "real", trajectories)
        begin = time.process_time()
        drain(store / "real")
        drain_sec = time.process_time() - begin
        drained = table_bytes(store / "real")
        settle(store / "real")
        settled = table_bytes(store / "real")
        record(store / "memory", trajectories)
        memory_mb = run_command("store", "drain", "--once", store / "memory").memory_mb
    yield Row(SECTION, "raw JSON", raw_bytes / 1e6, "MB")
    yield Row(SECTION, "drained, of raw JSON", raw_bytes / 1e6 / drain_sec, "MB/s", at_least(120))
    yield Row(SECTION, "raw JSON / store, as drained", raw_bytes / drained, "x")
    yield Row(SECTION, "raw JSON / store, settled", raw_bytes / settled, "x", at_least(30))
    yield Row(SECTION, "most memory of the drainer", memory_mb, "MB", at_most(500))


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
