"""How fast an open store answers, and how that grows: `python -m benchmarks.query [--quick] [--json FILE]`.

Settled stores of 2,000 and of 20,000 trajectories, 20 ops and messages each, 400 trajectories a step, with 1 kB of text
an op. Each question is asked several times and the median counts; the first time, when views are made, stands beside
it. `benchmarks.scale` asks larger stores from the command line.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import rolltrace
from benchmarks.stores import write_settled
from benchmarks.table import Row, at_most, render, write_json
from benchmarks.workload import WEIGHTS, WORDS
from rolltrace.tables import Place

OPS = 20
PER_STEP = 400
ROUNDS = 7


def build(store: Path, count: int) -> str:
    """Write a store of `count` trajectories; gives the id of one in the middle."""
    rng = random.Random(count)
    chosen = ""
    for step in range(count // PER_STEP):
        place = Place("bench", "query", step)
        rows: dict[str, list[dict[str, Any]]] = {"ops": [], "messages": [], "trajectories": []}
        for at in range(PER_STEP):
            trajectory_id = f"{at:08x}{rng.getrandbits(96):024x}"
            chosen = trajectory_id if step * PER_STEP <= count // 2 else chosen
            where = {**place._asdict(), "trajectory_id": trajectory_id, "sample_index": str(at // 4), "validate": False}
            where |= {"sample_number": at // 4, "rollout_n": at % 4, "run": "run-1", "run_ns": 1}
            start_ns = step * 10**12 + at * 10**9
            times = {"start_ns": start_ns, "end_ns": start_ns + 10**9, "status": "ok"}
            rows["trajectories"].append(
                {
                    **where, **times, "name": "rollout", "reward": float(rng.random() > 0.5), "superseded": False,
                    "branch": False, "turns": OPS // 2, "tool_calls": OPS // 2, "status_rank": 4, "flags": [],
                }
            )  # fmt: skip
            for number in range(OPS):
                _add_op(rng, rows, {**where, **times}, number)
        for table, members in rows.items():
            write_settled(store, table, {place: members})
    return chosen


def _add_op(rng: random.Random, rows: dict[str, list[dict[str, Any]]], fields: dict[str, Any], number: int) -> None:
    text = " ".join(rng.choices(WORDS, WEIGHTS, k=170))
    kind, name, author = (("llm", "generate", "policy"), ("tool", "search", "tool"))[number % 2]
    op_id = rng.getrandbits(62)
    rows["ops"].append(
        {**fields, "op_id": op_id, "kind": kind, "name": name, "payload": f'{{"inputs":{{"text":"{text}"}}}}'}
    )
    message = {"message_id": f"{op_id:x}", "seq": number, "kind": "message", "time_ns": fields["start_ns"] + number}
    rows["messages"].append({**fields, **message, "op_id": op_id, "role": author, "author": author, "text": text})


def measure(count: int) -> Iterator[Row]:
    """Rows of the table for one size."""
    section = f"query: {count:,} trajectories, {count * OPS:,} ops"
    with tempfile.TemporaryDirectory() as folder:
        chosen = build(Path(folder), count)
        store = rolltrace.open(folder)
        questions: dict[str, tuple[Callable[[], Any], float]] = {
            "list one step": (lambda: store.trajectories(step=count // PER_STEP // 2).rows(), 60),
            "open one trajectory": (lambda: store.trajectory(chosen), 200),
            "reward per step, all": (
                lambda: store.sql("select step, avg(reward) from trajectories group by 1").rows(),
                100,
            ),
            "search all text": (lambda: store.trajectories(where="text ~ 'certificate'").rows(), 1500),
        }
        for label, (ask, limit) in questions.items():
            first, *others = (_milliseconds(ask) for _ in range(ROUNDS))
            yield Row(section, label, median(others), "ms", at_most(limit))
            yield Row(section, f"{label}, first time", first, "ms")


def _milliseconds(ask: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    ask()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows = [row for count in ((400, 800) if options.quick else (2_000, 20_000)) for row in measure(count)]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
