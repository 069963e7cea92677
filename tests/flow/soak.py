"""A steady load for a while, and what the drainer needs for it: memory, handles, parts, undrained bytes.

    python -m tests.flow.soak STORE SECONDS

Four workers trace at a steady pace, a new step every ten seconds. Prints a line of JSON for each tenth of the time, and
at last one with how many trajectories were traced and how many the store has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import rolltrace
from rolltrace.journal import journal_files

WORKERS = 4
WORKER = """
import sys, time, rolltrace
store, worker, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rolltrace.init("soak", "steady", "rolltrace", store=store, drain="process")

@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids, text):
    return {"token_ids": prompt_ids[:200], "log_probs": [-0.5] * 200, "text": text}

begun, count = time.monotonic(), 0
while time.monotonic() < begun + seconds:
    step = int((time.monotonic() - begun) / 10)
    with rolltrace.rollout_trace_attr(step=step, sample_index=count, rollout_n=worker) as trajectory:
        for turn in range(4):
            generate(list(range(500 * (turn + 1))), "the quick brown fox " * 20)
        trajectory.reward(float(count % 2))
    count += 1
    time.sleep(0.05)
rolltrace.shutdown()
print(count)
"""


def keeper_of(store: Path) -> int | None:
    """The process that drains the store."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(store).encode() in words and any(b"rolltrace.keeper" in word for word in words):
            return int(folder.name)
    return None


def look(store: Path, at_sec: float) -> dict[str, object]:
    keeper = keeper_of(store)
    line: dict[str, object] = {
        "seconds": round(at_sec),
        "parts": sum(1 for _ in store.glob("data/*/*/*/*.parquet")),
        "steps": sum(1 for _ in store.glob("data/*/*/*")),
        "journal_files": len(journal_files(store)),
    }
    try:
        memory = Path(f"/proc/{keeper}/status").read_text()
        line["memory_mb"] = int(memory.partition("VmRSS:")[2].split()[0]) // 1024
        line["handles"] = len(os.listdir(f"/proc/{keeper}/fd"))
    except (OSError, IndexError):  # between two of them
        pass
    return line


def main(store: Path, seconds: float) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(store), str(worker), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        for worker in range(WORKERS)
    ]
    begun = time.monotonic()
    for tenth in range(1, 11):
        time.sleep(max(0.0, begun + tenth * seconds / 10 - time.monotonic()))
        sys.stdout.write(json.dumps(look(store, time.monotonic() - begun)) + "\n")
        sys.stdout.flush()
    traced = sum(int(worker.communicate()[0]) for worker in workers)
    counts = "count(*) AS ops, count(DISTINCT op_id) AS different, count(DISTINCT trajectory_id) AS ids"
    (row,) = rolltrace.open(store).sql(f"SELECT {counts} FROM spans").rows()
    sys.stdout.write(json.dumps({"traced": traced, "stored": row["ids"], "ops": row["ops"], "once": row["different"]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
