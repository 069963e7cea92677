"""The same questions to a folder and to a lake that was filled from it: are the answers equal, how long do they take?

    python -m benchmarks.lake_answers [STORE] [--merged]

Without STORE, one of 20,000 trajectories is made. The lake is on object storage (moto, over HTTP, on this machine).
Each question is asked of a store that was just opened: of the folder, of the lake with an empty cache, and of the lake
again. Every row of every table must be the same. A sum or mean of floats depends on the order in which its rows are
read, so these must be equal up to rounding.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rolltrace
from benchmarks.scale import arrow_table, build_wide, summarise
from benchmarks.stand_in import object_storage
from rolltrace.query import Store
from rolltrace.record.tables import SCORES
from rolltrace.store import Partition, write_table

TRAJECTORIES = 20_000
Question = Callable[[Store], Any]


def _sql(text: str) -> Question:
    return lambda store: store.sql(text).rows()


def _all_rows(table: str) -> Question:
    """How many rows there are, and a sum of their hashes: equal only for the same rows, each as often."""
    return _sql(f"SELECT count(*) AS n, sum(hash(each)) AS sum FROM (SELECT * FROM {table}) AS each")


def _some_ids(store: Store, count: int) -> list[str]:
    return [row["trajectory_id"] for row in store.trajectories(limit=count).rows()]


QUESTIONS: dict[str, Question] = {
    "experiments": lambda store: store.experiments().rows(),
    "steps": lambda store: store.steps().rows(),
    "the last 50 trajectories": lambda store: store.trajectories(limit=50).rows(),
    "the trajectories of a step": lambda store: store.trajectories(step=30).rows(),
    "the groups of a step": lambda store: store.groups(step=30).rows(),
    "a filter on reward": lambda store: store.trajectories(where="reward < 0.5 and step < 10").rows(),
    "errors": lambda store: store.trajectories(where="status = 'error'").rows(),
    "a trajectory with its payloads": lambda store: str(store.trajectory(_some_ids(store, 1)[0])),
    "two trajectories compared": lambda store: str(store.compare(_some_ids(store, 2))),
    "reward by step": _sql("SELECT step, avg(reward) FROM trajectories GROUP BY 1 ORDER BY 1"),
    "scores by name": _sql("SELECT name, count(*), sum(value) FROM scores GROUP BY 1 ORDER BY 1"),
    "tokens by step": _sql("SELECT step, sum(response_tokens) FROM spans GROUP BY 1 ORDER BY 1"),
    "calls by name": _sql("SELECT name, kind, count(*), max(end_ns - start_ns) FROM spans GROUP BY 1, 2 ORDER BY 1, 2"),
    "a word in all payloads": _sql("SELECT count(*) FROM spans WHERE contains(payload, 'token')"),
    "every row of trajectories": _all_rows("trajectories"),
    "every row of scores": _all_rows("scores"),
    "every row of spans": _all_rows("spans"),
    "every row of flags and notes": lambda store: [_all_rows(name)(store) for name in ("flags", "notes")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", type=Path, help="is copied, and not changed")
    parser.add_argument("--merged", action="store_true", help="run `rolltrace lake compact` on the lake first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, object_storage() as lake:
        store, cache = Path(folder) / "store", Path(folder) / "cache"
        os.environ["ROLLTRACE_CACHE"] = str(cache)
        if options.store is None:
            _build(store)
        else:
            shutil.copytree(options.store, store)
        begun = time.perf_counter()
        _run("ship", str(store), "--to", lake)
        print(f"shipped in {time.perf_counter() - begun:.1f} s")
        if options.merged:
            begun = time.perf_counter()
            _run("lake", "compact", lake, "--all")
            print(f"merged in {time.perf_counter() - begun:.1f} s")
        print("\n| question | folder, s | lake, empty cache, s | lake, again, s | equal |\n|---|---:|---:|---:|---|")
        different = [name for name, ask in QUESTIONS.items() if not _compare(name, ask, store, lake, cache)]
    sys.exit(f"different answers: {', '.join(different)}" if different else 0)


def _build(store: Path) -> None:
    """Of 20,000 trajectories, each with a reward and an advantage: floats, whose sum is next to nothing."""
    build_wide(store, TRAJECTORIES)
    with rolltrace.open(store) as opened:
        rows = opened.sql("SELECT project, experiment, step, trajectory_id FROM trajectories ORDER BY ALL").rows()
    chance = random.Random(0)
    steps: dict[Partition, list[str]] = {}
    for row in rows:
        steps.setdefault(Partition(row["project"], row["experiment"], row["step"]), []).append(row["trajectory_id"])
    for partition, ids in steps.items():
        values = [chance.gauss(0.0, 1.0) for _ in ids]
        columns = {
            "trajectory_id": ids,
            **{name: [value] * len(ids) for name, value in partition._asdict().items()},
            "validate": [False] * len(ids),
            "name": ["advantage"] * len(ids),
            "value": [value - sum(values) / len(values) for value in values],
            "time_ns": list(range(len(ids))),
        }
        write_table(store, partition, SCORES, "late", arrow_table(SCORES, columns))
    summarise(store)


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "rolltrace", *words], check=True, stdout=subprocess.DEVNULL)


def _compare(name: str, ask: Question, store: Path, lake: str, cache: Path) -> bool:
    """Print a line of the table; whether the answers are equal."""
    _ask(ask, store)  # the files of the folder are in memory from here on, as those of moto are
    here, here_sec = _ask(ask, store)
    shutil.rmtree(cache, ignore_errors=True)
    there, cold_sec = _ask(ask, lake)
    again, warm_sec = _ask(ask, lake)
    equal = _is_equal(here, there) and _is_equal(here, again)
    print(f"| {name} | {here_sec:.2f} | {cold_sec:.2f} | {warm_sec:.2f} | {'yes' if equal else 'NO'} |", flush=True)
    return equal


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        # Of thousands of numbers around one; a sum that should be nothing has no digits of its own.
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def _ask(ask: Question, where: Path | str) -> tuple[Any, float]:
    begun = time.perf_counter()
    with rolltrace.open(where) as store:
        answer = ask(store)
    return answer, time.perf_counter() - begun


if __name__ == "__main__":
    main()
