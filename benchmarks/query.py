"""How fast a store answers, and how that grows: `python -m benchmarks.query [--quick] [--json FILE]`.

Stores of 2,000 and of 20,000 trajectories, 20 ops each, 400 trajectories a step, with 1 kB of text an op. Each
question is asked several times and the median counts; the first time, when views are made, stands beside it.
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
from benchmarks.table import Row, at_most, render, write_json
from benchmarks.workload import WEIGHTS, WORDS
from rolltrace.record.tables import SCORES, SPANS, TRAJECTORIES
from rolltrace.store import Partition, prepare, write_part

OPS = 20
PER_STEP = 400
ROUNDS = 7


def build(store: Path, count: int) -> str:
    """Write a store of `count` trajectories; gives the id of one in the middle."""
    prepare(store)
    rng = random.Random(count)
    chosen = ""
    for step in range(count // PER_STEP):
        spans: list[dict[str, Any]] = []
        trajectories: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        for at in range(PER_STEP):
            trajectory_id = f"{rng.getrandbits(128):032x}"
            chosen = trajectory_id if step * PER_STEP <= count // 2 else chosen
            where = {"project": "bench", "experiment": "query", "step": step, "trajectory_id": trajectory_id}
            where |= {"sample_index": str(at // 4), "sample_is_int": True, "rollout_n": at % 4, "validate": False}
            start = step * 10**12 + at * 10**9
            times = {"start_ns": start, "end_ns": start + 10**9, "status": "ok"}
            trajectories.append({**where, **times, "name": "rollout", "tags": "{}"})
            scores.append({**where, "name": "reward", "value": float(rng.random() > 0.5), "time_ns": start})
            spans += (_span(rng, {**where, **times}, number) for number in range(OPS))
        place = Partition("bench", "query", step)
        for table, rows in ((SPANS, spans), (TRAJECTORIES, trajectories), (SCORES, scores)):
            write_part(store, place, table, f"w-{step:06d}", rows)
    return chosen


def _span(rng: random.Random, fields: dict[str, Any], number: int) -> dict[str, Any]:
    text = " ".join(rng.choices(WORDS, WEIGHTS, k=170))
    kind, name = (("llm", "generate"), ("tool", "search"), ("other", "parse"))[number % 3]
    own = {"op_id": rng.getrandbits(62), "kind": kind, "name": name, "payload": f'{{"inputs":{{"text":"{text}"}}}}'}
    tokens = {"tokens": list(range(50)), "prompt_tokens": 30, "response_tokens": 20} if kind == "llm" else {}
    return {**fields, **own, **tokens}


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
