"""How answers grow with a store and with a trajectory: `python -m benchmarks.scale [--quick] [--json FILE]`.

Every figure is of a fresh process, as a person at a shell has it, imports included: wall time, CPU time, peak memory.
Stores are written through the store's own writer, and kept in --folder for the next time.

    python -m benchmarks.scale --trajectories 10000 100000 1000000 --turns 10 100 1000 --export 10000
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.table import Row, Target, at_most, render, write_json
from benchmarks.workload import WORDS
from rolltrace.record.tables import SCORES, SPANS, TRAJECTORIES, Table
from rolltrace.store import SCHEMAS, Partition, prepare, write_table

EXPERIMENTS = 2
STEPS = 125
ROLLOUTS = 4
OPS = (("generate", "llm"), ("search", "tool"), ("generate", "llm"))
TOKENS_PER_TURN = 100


class Cost(NamedTuple):
    """What one process took."""

    wall_s: float
    cpu_s: float
    peak_mib: float


_RUN = """
import sys
from rolltrace.cli import main
code = main(sys.argv[2:])
with open("/proc/self/status") as status, open(sys.argv[1], "w") as out:
    out.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
sys.exit(code)
"""


def cost_of(arguments: list[str]) -> Cost:
    """What `rolltrace ARGUMENTS` costs in a process of its own.

    Its peak memory is what it says itself: what the kernel tells us of a child includes us, before it became another.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as out, tempfile.NamedTemporaryFile("r") as peak:
        command = [sys.executable, "-c", _RUN, peak.name, *arguments]
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            out.seek(0)
            raise RuntimeError(f"rolltrace {' '.join(arguments)} ended with {child.returncode}: {out.read()[-500:]!r}")
        return Cost(wall_s, used.ru_utime + used.ru_stime, int(peak.read()) / 1024)


def summarise(store: Path) -> None:
    """What a keeper does when a step is finished."""
    from rolltrace.query import summarise_steps as make

    make(store)


def stop_keeper(store: Path) -> None:
    """End the drainer that a question has started, so that the store can be removed."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(store).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def kept(folder: Path, name: str) -> tuple[Path, bool]:
    """Where a store is kept, and whether it is there already."""
    store = folder / name
    return store, (store / "complete").exists()


def build_wide(store: Path, count: int) -> None:
    """Many small trajectories: 3 ops each, in 125 steps of 2 experiments."""
    shutil.rmtree(store, ignore_errors=True)
    prepare(store)
    rng = random.Random(count)
    steps = min(STEPS, max(1, count // (EXPERIMENTS * ROLLOUTS)))
    per_step = count // (EXPERIMENTS * steps)
    for experiment in range(EXPERIMENTS):
        for step in range(steps):
            for table, rows in _wide_step(rng, f"run-{experiment}", step, per_step):
                write_table(store, Partition("scale", f"run-{experiment}", step), table, f"w-{step:06d}", rows, level=9)
    (store / "complete").touch()


def _wide_step(rng: random.Random, experiment: str, step: int, count: int) -> Iterator[tuple[Table, pa.Table]]:
    ids = sorted(f"{rng.getrandbits(128):032x}" for _ in range(count))
    begin = (step + 1) * 10**12
    starts = [begin + at * 10**6 for at in range(count)]

    def where(times: int) -> dict[str, Sequence[object]]:
        return {
            "trajectory_id": [each for each in ids for _ in range(times)],
            "project": ["scale"] * count * times,
            "experiment": [experiment] * count * times,
            "step": [step] * count * times,
            "sample_index": [str(at // ROLLOUTS) for at in range(count) for _ in range(times)],
            "sample_is_int": [True] * count * times,
            "rollout_n": [at % ROLLOUTS for at in range(count) for _ in range(times)],
            "validate": [False] * count * times,
            "worker": ["host-1"] * count * times,
        }

    own: dict[str, Sequence[object]] = {
        "name": ["rollout"] * count,
        "start_ns": starts,
        "end_ns": [start + rng.randrange(10**9, 10**11) for start in starts],
        "status": ["ok" if rng.random() < 0.97 else "error" for _ in ids],
        "tags": ["{}"] * count,
    }
    yield TRAJECTORIES, arrow_table(TRAJECTORIES, {**where(1), **own})
    rewards: dict[str, Sequence[object]] = {
        "name": ["reward"] * count,
        "value": [float(rng.random() > 0.5) for _ in ids],
        "time_ns": starts,
    }
    yield SCORES, arrow_table(SCORES, {**where(1), **rewards})
    total = count * len(OPS)
    ops: dict[str, Sequence[object]] = {
        "op_id": [rng.getrandbits(62) for _ in range(total)],
        "name": [name for _ in ids for name, _ in OPS],
        "kind": [kind for _ in ids for _, kind in OPS],
        "start_ns": [start + at for start in starts for at in range(len(OPS))],
        "end_ns": [start + at + 1000 for start in starts for at in range(len(OPS))],
        "status": ["ok"] * total,
        "prompt_tokens": [200 if kind == "llm" else None for _ in ids for _, kind in OPS],
        "response_tokens": [rng.randrange(500) if kind == "llm" else None for _ in ids for _, kind in OPS],
        "policy_version": [step if kind == "llm" else None for _ in ids for _, kind in OPS],
        "payload": [_small_payload(rng, kind) for _ in ids for _, kind in OPS],
    }
    yield SPANS, arrow_table(SPANS, {**where(len(OPS)), **ops})


def _small_payload(rng: random.Random, kind: str) -> str:
    words = " ".join(rng.choices(WORDS, k=4))
    asked = f'{{"messages":[{{"role":"user","content":"{words}"}}]}}' if kind == "llm" else f'{{"query":"{words}"}}'
    return f'{{"inputs":{asked},"outputs":{{"text":"{words}"}}}}'


def build_long(store: Path, turns: int) -> str:
    """One trajectory whose prompt grows by 100 tokens and two messages each turn; gives its id."""
    shutil.rmtree(store, ignore_errors=True)
    prepare(store)
    rng = random.Random(turns)
    trajectory_id = f"{turns:032x}"
    where = {
        "trajectory_id": trajectory_id, "project": "scale", "experiment": "long", "step": 1, "sample_index": "0",
        "sample_is_int": True, "rollout_n": 0, "validate": False, "worker": "host-1",
    }  # fmt: skip
    place = Partition("scale", "long", 1)
    write_table(
        store,
        place,
        SPANS,
        "w-000001",
        arrow_table(SPANS, {**{k: [v] * turns for k, v in where.items()}, **long_ops(rng, turns)}),
        level=9,
    )
    own = {"name": "rollout", "start_ns": 0, "end_ns": turns * 10**9, "status": "ok", "tags": "{}"}
    write_table(
        store, place, TRAJECTORIES, "w-000001", arrow_table(TRAJECTORIES, {k: [v] for k, v in {**where, **own}.items()})
    )
    (store / "complete").touch()
    return trajectory_id


def long_ops(rng: random.Random, turns: int) -> dict[str, list[object]]:
    """Model calls whose prompt grows by 100 tokens and two messages each turn."""
    messages = ['{"role":"system","content":"You are an agent."}']
    tokens: list[int] = []
    ops: dict[str, list[object]] = {
        name: []
        for name in (
            "op_id", "name", "kind", "start_ns", "end_ns", "status", "prompt_tokens", "response_tokens", "tokens",
            "logprobs", "response_mask", "payload",
        )
    }  # fmt: skip
    for turn in range(turns):
        tokens += (rng.randrange(150_000) for _ in range(TOKENS_PER_TURN // 2))
        messages.append(f'{{"role":"user","content":"{" ".join(rng.choices(WORDS, k=20))}"}}')
        reply = [rng.randrange(150_000) for _ in range(TOKENS_PER_TURN // 2)]
        content = " ".join(rng.choices(WORDS, k=20))
        values = {
            "op_id": turn + 1, "name": "generate", "kind": "llm", "start_ns": turn * 10**9,
            "end_ns": turn * 10**9 + 10**8, "status": "ok", "prompt_tokens": len(tokens), "response_tokens": len(reply),
            "tokens": pa.array([*tokens, *reply], pa.int32()),
            "logprobs": pa.array([-rng.random() for _ in reply], pa.float32()),
            "response_mask": pa.array([1] * len(reply), pa.int8()),
            "payload": f'{{"inputs":{{"messages":[{",".join(messages)}],"prompt_ids":{{"$column":"prompt_ids"}}}},'
            f'"outputs":{{"content":"{content}","response_ids":{{"$column":"response_ids"}}}}}}',
        }  # fmt: skip
        for name, value in values.items():
            ops[name].append(value)
        tokens += reply
        messages.append(f'{{"role":"assistant","content":"{content}"}}')
    return ops


def arrow_table(table: Table, columns: Mapping[str, Sequence[object]]) -> pa.Table:
    from rolltrace.store import arrow_column

    schema = SCHEMAS[table.name]
    count = len(next(iter(columns.values())))
    arrays = [
        arrow_column(list(columns[field.name]), field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


_TRACE = """
import pathlib, sys
import rolltrace
rolltrace.init("scale", "live", "rolltrace", store=sys.argv[1], drain="off", quiet=True)

@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt):
    return {"text": prompt * 2}

@rolltrace.rollout_trace_op(kind="tool")
def search(query):
    return "found " + query

def written_bytes():
    return sum(path.stat().st_size for path in pathlib.Path(sys.argv[1]).glob("journal/*/*.seg"))

number = 0
while number % 1000 or not number or written_bytes() < int(sys.argv[2]) << 20:
    with rolltrace.rollout_trace_attr(step=number // 4000, sample_index=number // 4, rollout_n=number % 4) as handle:
        for turn in range(2):
            search("what is " + generate("question %d" % number)["text"])
    rolltrace.score(handle, "reward", float(number % 3))
    number += 1
rolltrace.shutdown()
"""


def build_journal(store: Path, mebibytes: int) -> None:
    """A store of which so much lies in journals: small ops of many trajectories, their writer gone."""
    shutil.rmtree(store, ignore_errors=True)
    subprocess.run([sys.executable, "-c", _TRACE, str(store), str(mebibytes)], check=True)
    (store / "complete").touch()


def measure_wide(folder: Path, count: int, *, is_target: bool) -> Iterator[Row]:
    """The questions of a shell to a store of so many trajectories."""
    store, is_there = kept(folder, f"wide-{count}")
    if not is_there:
        build_wide(store, count)
    summarise(store)
    section = f"{count:,} trajectories, {count * len(OPS):,} ops"
    broad, narrow = (1.0, 0.6) if is_target else (None, None)
    questions = {
        "ls --experiments": (["ls", "--experiments"], broad),
        "ls --limit 5": (["ls", "--limit", "5"], broad),
        "ls": (["ls"], broad),
        "ls --steps": (["ls", "--steps"], broad),
        "stats": (["stats"], broad),
        "ls --step 60 --experiment run-1": (["ls", "--step", "60", "--experiment", "run-1"], narrow),
        "groups --step 60": (["groups", "--step", "60"], narrow),
        "ls --where 'reward < 0.5 and turns > 1'": (["ls", "--where", "reward < 0.5 and turns > 1"], None),
    }
    for label, ((command, *options), limit) in questions.items():
        yield from rows_of(section, label, cost_of([command, str(store), *options]), limit, 300 if limit else None)


def measure_long(folder: Path, turns: int, *, is_target: bool) -> Iterator[Row]:
    """One trajectory with so many model calls."""
    store, is_there = kept(folder, f"long-{turns}")
    if not is_there:
        build_long(store, turns)
    section = f"one trajectory of {turns:,} turns"
    limit = 1.0 if is_target else None
    cost = cost_of(["show", f"{turns:032x}", str(store)])
    yield from rows_of(section, "show", cost, limit, 300 if limit else None)
    cost = cost_of(["show", f"{turns:032x}", str(store), "--ops"])
    yield from rows_of(section, "show --ops", cost, limit, 300 if limit else None)


def measure_live(folder: Path, mebibytes: int, *, is_target: bool) -> Iterator[Row]:
    """The first question while nothing is drained yet."""
    kept_store, is_there = kept(folder, f"live-{mebibytes}")
    if not is_there:
        build_journal(kept_store, mebibytes)
    section = f"{mebibytes} MB of journal undrained"
    for label, options in {"ls --experiments": ["--experiments"], "ls --limit 5": ["--limit", "5"]}.items():
        with tempfile.TemporaryDirectory(dir=folder) as name:  # the question may start a drainer
            store = Path(name) / "store"
            shutil.copytree(kept_store, store)
            cost = cost_of(["ls", str(store), *options])
            stop_keeper(store)
        yield from rows_of(section, label, cost, 2.0 if is_target else None, 500 if is_target else None)


def measure_export(folder: Path, count: int, *, is_target: bool) -> Iterator[Row]:
    """Small trajectories as JSON lines and as training data."""
    store, is_there = kept(folder, f"wide-{count}")
    if not is_there:
        build_wide(store, count)
    for form in ("jsonl", "sft"):
        cost = cost_of(["export", form, str(store), "-o", os.devnull])
        yield from rows_of(f"export of {count:,} small trajectories", form, cost, 5.0 if is_target else None, None)


def measure_start(folder: Path) -> Iterator[Row]:
    """`rolltrace ls` on a store that is hardly there: as a keeper leaves it, and before it has summarised the steps."""
    for name, label in (("small", "ls"), ("small-summarised", "ls, steps summarised")):
        store, is_there = kept(folder, name)
        if not is_there:
            build_wide(store, 64)
        if label != "ls":
            summarise(store)
        cost = min(cost_of(["ls", str(store)]) for _ in range(5))
        yield from rows_of("cold start on 64 trajectories", label, cost, 0.35, None)


def rows_of(section: str, label: str, cost: Cost, wall_s: float | None, peak_mib: float | None) -> Iterator[Row]:
    yield Row(section, label, cost.wall_s, "s", _most(wall_s))
    yield Row(section, f"{label}: CPU", cost.cpu_s, "s")
    yield Row(section, f"{label}: memory", cost.peak_mib, "MiB", _most(peak_mib))


def _most(limit: float | None) -> Target | None:
    return None if limit is None else at_most(limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes only; growth is seen, targets are not met")
    parser.add_argument("--trajectories", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--turns", type=int, nargs="*", default=[10, 100, 1_000])
    parser.add_argument("--journal-mib", type=int, nargs="*", default=[13, 130])
    parser.add_argument("--export", type=int, nargs="*", default=[10_000])
    parser.add_argument("--folder", type=Path, help="keep the stores here, for the next time")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.quick:
        options.trajectories, options.turns, options.journal_mib, options.export = (
            [1_000, 10_000],
            [10, 100],
            [4],
            [500],
        )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for count in options.trajectories:
            rows += measure_wide(folder, count, is_target=count >= 1_000_000)
        for turns in options.turns:
            rows += measure_long(folder, turns, is_target=turns >= 1_000)
        for mebibytes in options.journal_mib:
            rows += measure_live(folder, mebibytes, is_target=mebibytes >= 130)
        for count in options.export:
            rows += measure_export(folder, count, is_target=count >= 10_000)
        rows += measure_start(folder)
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
