"""Stores to measure with: recorded and drained, or written as settled tables directly."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rolltrace
from benchmarks.workload import WEIGHTS, WORDS
from rolltrace.drain import Follower
from rolltrace.tables import Place, TableStore, address_in, arrow_schema, compact_place, moving_places, write_file

EXPERIMENTS = 5
PROJECT = "maths"


class Used(NamedTuple):
    """What a process used until it ended."""

    cpu_sec: float
    wall_sec: float
    memory_mb: float
    output: str


_MEASURED = """
import re, resource, sys, time
begin = time.perf_counter()
try:
    {program}
finally:
    sys.stdout.flush()
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = open("/proc/self/status").read()  # not ru_maxrss: a child begins with that of its parent
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1000
    print(used.ru_utime + used.ru_stime, time.perf_counter() - begin, peak, file=sys.stderr)
"""
_COMMAND = _MEASURED.format(program="from rolltrace.cli import main; sys.exit(main(sys.argv[1:]))")


def run_command(*words: object) -> Used:
    """Run a command of rolltrace in a process of its own."""
    return run_program(_COMMAND, *words)


def run_program(program: str, *words: object) -> Used:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, check=False,
        env={**os.environ, "ROLLTRACE_BACKEND": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    cpu_sec, wall_sec, memory_mb = map(float, done.stderr.strip().splitlines()[-1].split())
    return Used(cpu_sec, wall_sec, memory_mb, done.stdout)


def measured(program: str) -> str:
    """A program that says at its end what it used, for `run_program`."""
    return _MEASURED.format(program=program.strip().replace("\n", "\n    "))


def drain(store: Path) -> Follower:
    """Bring what is in the journals into the tables, in this process."""
    follower = Follower(store)
    with follower.working() as alone:
        assert alone, "another drainer works on this store"
        follower.drain()
    return follower


def settle(store: Path) -> None:
    """Compact every step."""
    tables = TableStore(address_in(store))
    for place in moving_places(tables):
        compact_place(tables, place)


def table_bytes(store: Path) -> int:
    """What the files of all tables take that count."""
    tables = TableStore(address_in(store))
    names = [path.parent.name for path in store.glob("*/_delta_log")]
    return sum(file.size_bytes for name in names for file in tables.files(name))


def write_settled(store: Path, table: str, rows: Mapping[Place, Sequence[dict[str, Any]]]) -> None:
    """Write rows as compaction leaves them."""
    import pyarrow as pa

    tables = TableStore(address_in(store))
    tables.prepare()
    schema = arrow_schema(table)
    files = [
        write_file(
            tables.address, table, place, kind="settled", level=9,
            rows=pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in members], schema),
        )
        for place, members in rows.items()
    ]  # fmt: skip
    tables.table(table).create()
    tables.table(table).commit(files)


def write_wide(store: Path, trajectories: int, steps: int = 250) -> None:
    """A store of so many trajectories in so many settled steps, with every column of `trajectories` filled."""
    rng = random.Random(0)
    per_step = trajectories // steps
    for first in range(0, steps, 10):
        rows = {}
        for number in range(first, min(first + 10, steps)):
            place = Place(PROJECT, f"grpo-{number % EXPERIMENTS}", number // EXPERIMENTS)
            members = [_trajectory(rng, place, n) for n in range(per_step)]
            rows[place] = sorted(members, key=lambda row: row["trajectory_id"])
        write_settled(store, "trajectories", rows)
    TableStore(address_in(store)).table("trajectories")._delta.create_checkpoint()


def _trajectory(rng: random.Random, place: Place, n: int) -> dict[str, Any]:
    step = place.step or 0
    start_ns = 1_760_000_000_000_000_000 + step * 600_000_000_000 + rng.randrange(300_000_000_000)
    took_ns = rng.randrange(1_000_000_000, 90_000_000_000)
    reward = rng.random()
    return {
        **place._asdict(), "trajectory_id": f"{rng.getrandbits(128):032x}", "sample_index": str(n // 8),
        "sample_number": n // 8, "rollout_n": n % 8, "validate": False, "run": "run-1", "run_ns": 1,
        "worker": f"host-{n % 16}", "name": "agent_loop", "status": "error" if n % 50 == 0 else "ok",
        "error": "TimeoutError: sandbox" if n % 50 == 0 else None, "start_ns": start_ns, "end_ns": start_ns + took_ns,
        "duration_s": took_ns / 1e9, "tags": json.dumps({"difficulty": rng.choice(("easy", "hard"))}),
        "tags_ns": start_ns, "status_rank": 4, "turns": rng.randrange(1, 12), "tool_calls": rng.randrange(9),
        "tool_errors": rng.randrange(2), "prompt_tokens": rng.randrange(9000),
        "response_tokens": rng.randrange(1, 8000), "last_call_ns": start_ns, "last_ns": start_ns + took_ns,
        "records": 20, "open_ops": 0, "policy_version_min": step, "policy_version_max": step, "staleness": 0,
        "reward": reward, "terms": [("correct", reward), ("format", 0.1)], "advantage": rng.random() - 0.5,
        "fate": "trained", "trained_step": step, "flags": ["cut_by_length"] if n % 9 == 0 else [], "labels": [],
        "task": f"What is {n} plus {step}? Think step by step.", "answer": f"The answer is {n + step}.",
        "scored_ns": start_ns + took_ns, "superseded": False, "branch": False,
    }  # fmt: skip


def record_small(store: Path, trajectories: int, *, per_step: int = 2000, ops: int = 3) -> None:
    """Rollouts of a few small ops, two of them model calls with tokens, and a reward; left in the journal."""
    rolltrace.init(
        PROJECT,
        "small",
        "rolltrace",
        store=store,
        drain="off",
        quiet=True,
        limits={"max_unsent_bytes": "64GiB"},
        run="run-1",
    )
    rng = random.Random(0)
    replies = [
        {
            "text": f"answer {number}", "response_ids": [rng.randrange(150_000) for _ in range(12)],
            "prompt_ids": [rng.randrange(150_000) for _ in range(20)], "logprobs": [-rng.random() for _ in range(12)],
        }
        for number in range(64)
    ]  # fmt: skip

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(prompt: str, number: int) -> dict[str, Any]:
        return replies[number % 64]

    @rolltrace.rollout_trace_op(kind="tool")
    def search(query: str) -> str:
        return f"found {query}"

    calls: Sequence[Callable[[int], object]] = [
        lambda number: generate(f"question {number}", number),
        lambda number: search(f"words {number}"),
        lambda number: generate(f"and {number}", number + 1),
    ][:ops]
    for number in range(trajectories):
        with rolltrace.rollout_trace_attr(number // 8, step=number // per_step, rollout_n=number % 8) as trajectory:
            for call in calls:
                call(number)
            trajectory.reward(float(number % 3))
    rolltrace.shutdown()


def record_chats(store: Path, trajectories: int, *, turns: int = 12, needle: str = "certificate") -> None:
    """Conversations like those of tau-bench, customer and agent with tools, one in a hundred with a rare word."""
    rolltrace.init(
        PROJECT, "chats", "rolltrace", store=store, drain="off", quiet=True, limits={"max_unsent_bytes": "64GiB"}
    )

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(messages: list[dict[str, Any]], reply: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [{"message": reply, "finish_reason": "stop"}]}

    @rolltrace.rollout_trace_op(kind="tool")
    def look_up(query: str, answer: str) -> str:
        return answer

    policy = _text(random.Random(1), 6_000)  # the rules that every conversation begins with
    for number in range(trajectories):
        rng = random.Random(number)
        messages: list[dict[str, Any]] = [{"role": "system", "content": policy}]
        with rolltrace.rollout_trace_attr(number // 8, step=number // 400, rollout_n=number % 8) as trajectory:
            for turn in range(turns):
                asked = _text(rng, 200) + (f" {needle}" if turn == 3 and number % 100 == 0 else "")
                reply = {"role": "assistant", "content": _text(rng, 300)}
                messages.append({"role": "user", "content": asked})
                generate(list(messages), reply)
                messages.append(reply)
                if turn % 2:
                    found = json.dumps({"order": rng.getrandbits(32), "items": _text(rng, 400)})
                    messages.append({"role": "tool", "content": look_up(f"order {turn}", found)})
            trajectory.reward(float(rng.random() > 0.5))
    rolltrace.shutdown()


def record_long(store: Path, turns: int) -> str:
    """One rollout of very many turns; its id."""
    rolltrace.init(
        PROJECT, "long", "rolltrace", store=store, drain="off", quiet=True, limits={"max_unsent_bytes": "64GiB"}
    )

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(messages: list[dict[str, Any]], reply: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [{"message": reply, "finish_reason": "stop"}]}

    @rolltrace.rollout_trace_op(kind="tool")
    def search(query: str, answer: str) -> str:
        return answer

    rng = random.Random(0)
    messages: list[dict[str, Any]] = [{"role": "user", "content": _text(rng, 2_000)}]
    with rolltrace.rollout_trace_attr("long", step=1, rollout_n=0) as trajectory:
        for turn in range(turns):
            call = {"id": f"c{turn}", "function": {"name": "search", "arguments": json.dumps({"query": turn})}}
            reply = {"role": "assistant", "content": _text(rng, 400), "tool_calls": [call]}
            generate(list(messages), reply)
            found = search(str(turn), _text(rng, 600))
            messages += [reply, {"role": "tool", "tool_call_id": f"c{turn}", "content": found}]
        trajectory.reward(1.0)
    rolltrace.shutdown()
    return trajectory.id


def _text(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, WEIGHTS, k=size // 5))[:size]
