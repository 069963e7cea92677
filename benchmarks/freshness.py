"""How soon another process reads a trajectory that has ended: `python -m benchmarks.freshness [--seconds N]`.

One writer is busy all the time (about 200 ops/s) with a drainer of its own. A reader keeps a store open and asks for
the newest trajectories five times a second. Printed are percentiles of the time from the end of a trajectory to the
moment at which the reader has its row with a status of `ok`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rolltrace
from benchmarks.drain import _BUSY
from benchmarks.table import Row, at_most, render, write_json
from tests.background import kill_keepers

_ASK = "SELECT trajectory_id, end_ns FROM trajectories WHERE status = 'ok' AND end_ns > ?"


def measure(seconds: float) -> list[Row]:
    """Rows of the table."""
    lags: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        writer = subprocess.Popen([sys.executable, "-c", _BUSY, str(store), "200", str(seconds)])
        while not (store / "trajectories" / "_delta_log").exists():
            assert writer.poll() is None
            time.sleep(0.1)
        seen: set[str] = set()
        begin_ns = time.time_ns()  # what ended before the reader began is not its lag
        with rolltrace.open(store) as opened:
            while writer.poll() is None:
                rows = opened.sql(_ASK, [max(begin_ns, time.time_ns() - int(60e9))]).rows()
                now_ns = time.time_ns()
                lags += [(now_ns - row["end_ns"]) / 1e9 for row in rows if row["trajectory_id"] not in seen]
                seen.update(row["trajectory_id"] for row in rows)
                time.sleep(0.2)
        kill_keepers(store)
    lags.sort()
    section = f"end of a trajectory to readable by another process, {len(lags):,} trajectories"
    return [
        Row(section, "p50", lags[len(lags) // 2], "s", at_most(3)),
        Row(section, "p99", lags[len(lags) * 99 // 100], "s", at_most(6)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long to record (default: 60)")
    parser.add_argument("--quick", action="store_true", help="ten seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args()
    rows = measure(10 if options.quick else options.seconds)
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
