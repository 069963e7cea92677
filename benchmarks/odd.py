"""A store of odd trajectories: very many turns, ops or tokens, a huge message, a large group, many terms and tags.

Each stands in a step of its own of one experiment, so that a page of it shows nothing else.
"""

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.scale import arrow_table, long_ops
from benchmarks.workload import WORDS
from rolltrace.query import summarise_steps
from rolltrace.record.tables import SCORES, SPANS, TRAJECTORIES, Table
from rolltrace.store import Partition, prepare, write_table

PLACE = ("odd", "odd")
Columns = Mapping[str, Sequence[object]]


class Sizes(NamedTuple):
    """How odd."""

    turns: int = 1_000
    ops: int = 30_000
    tokens: int = 200_000
    message_bytes: int = 5_000_000
    group: int = 512
    terms: int = 300
    tags: int = 5_000
    step: int = 8_000

    def by(self, factor: float) -> "Sizes":
        return Sizes(*(max(2, round(each * factor)) for each in self))


class Oddity(NamedTuple):
    """A page to open."""

    name: str
    path: str
    ready: str
    """What is on the page when it is there: a key of `tests.browser.places.READY`."""


def oddities(sizes: Sizes) -> list[Oddity]:
    """The pages of the store that `build_odd` writes."""

    def trajectory(step: int, tab: str = "") -> str:
        return f"/t/{_id(step, 0)}{tab and f'?tab={tab}'}"

    def step(number: int) -> str:
        return f"/e/{'/'.join(PLACE)}/step/{number}"

    return [
        Oddity(f"{sizes.turns:,} turns, conversation", trajectory(1), "conversation"),
        Oddity(f"{sizes.turns:,} turns, {sizes.turns * 100:,} tokens", trajectory(1, "tokens"), "tokens"),
        Oddity(f"{sizes.ops:,} ops", trajectory(2, "ops"), "ops"),
        Oddity(f"{sizes.tokens:,} response tokens", trajectory(3, "tokens"), "tokens"),
        Oddity(f"message of {sizes.message_bytes:,} bytes", trajectory(4), "conversation"),
        Oddity(f"group of {sizes.group:,} rollouts", step(5), "groups"),
        Oddity(f"a rollout of these {sizes.group:,}", trajectory(5), "conversation"),
        Oddity(f"{sizes.terms:,} reward terms", trajectory(6), "conversation"),
        Oddity(f"{sizes.tags:,} distinct tags", step(7), "groups"),
        Oddity(f"step of {sizes.step:,} trajectories, groups", step(8), "groups"),
        Oddity(f"step of {sizes.step:,} trajectories, list", f"{step(8)}?view=list", "list"),
    ]


def build_odd(store: Path, sizes: Sizes) -> None:
    """Write the store, as a keeper leaves it."""
    shutil.rmtree(store, ignore_errors=True)
    prepare(store)
    rng = random.Random(1)
    _write(store, 1, 1, 1, SPANS, long_ops(rng, sizes.turns))
    _write(store, 2, 1, 1, SPANS, _many_ops(sizes.ops))
    _write(store, 3, 1, 1, SPANS, _long_response(rng, sizes.tokens))
    _write(store, 4, 1, 1, SPANS, _said(["word " * (sizes.message_bytes // 5)]))
    _write(store, 5, sizes.group, sizes.group, SPANS, _said(["a reply"] * sizes.group))
    _write(store, 6, 1, 1, SPANS, _said(["a reply"]))
    _write(store, 7, sizes.tags, 8, SPANS, _said(["a reply"] * sizes.tags))
    _write(store, 8, sizes.step, 8, SPANS, _said(["a reply"] * sizes.step))
    for step, count, size in _steps(sizes):
        terms = {f"term_{at}": at / sizes.terms for at in range(sizes.terms)} if step == 6 else None
        tags = [{f"tag_{at}": at} for at in range(count)] if step == 7 else [{}] * count
        rewards: Columns = {"name": ["reward"] * count, "value": [float(rng.random() > 0.5) for _ in range(count)]}
        more: Columns = {"terms": [json.dumps(terms) if terms else None] * count, "time_ns": [10**12] * count}
        _write(store, step, count, size, SCORES, {**rewards, **more})
        own: Columns = {
            "name": ["rollout"] * count, "start_ns": [10**12] * count, "status": ["ok"] * count,
            "end_ns": [10**12 + rng.randrange(10**9, 10**11) for _ in range(count)],
            "tags": [json.dumps(each) for each in tags],
        }  # fmt: skip
        _write(store, step, count, size, TRAJECTORIES, own)
    summarise_steps(store)
    (store / "complete").touch()


def _steps(sizes: Sizes) -> Iterator[tuple[int, int, int]]:
    """Step, how many trajectories, how many in a group."""
    yield from ((step, 1, 1) for step in (1, 2, 3, 4, 6))
    yield 5, sizes.group, sizes.group
    yield 7, sizes.tags, 8
    yield 8, sizes.step, 8


def _write(store: Path, step: int, count: int, size: int, table: Table, columns: Columns) -> None:
    rows = len(next(iter(columns.values())))
    each = rows // count
    at = [number for number in range(count) for _ in range(each)]
    where: Columns = {
        "trajectory_id": [_id(step, number) for number in at],
        "project": [PLACE[0]] * rows,
        "experiment": [PLACE[1]] * rows,
        "step": [step] * rows,
        "sample_index": [str(number // size) for number in at],
        "sample_is_int": [True] * rows,
        "rollout_n": [number % size for number in at],
        "validate": [False] * rows,
        "worker": ["host-1"] * rows,
    }
    write_table(store, Partition(*PLACE, step), table, "w-000001", arrow_table(table, {**where, **columns}), level=3)


def _id(step: int, number: int) -> str:
    return f"{step:016x}{number:016x}"


def _said(replies: Sequence[str]) -> Columns:
    """One model call each."""
    count = len(replies)
    asked = '"inputs":{"messages":[{"role":"user","content":"a question"}]}'
    return {
        "op_id": list(range(1, count + 1)), "name": ["generate"] * count, "kind": ["llm"] * count,
        "start_ns": [10**12] * count, "end_ns": [10**12 + 10**9] * count, "status": ["ok"] * count,
        "prompt_tokens": [10] * count, "response_tokens": [20] * count,
        "payload": [f'{{{asked},"outputs":{{"content":{json.dumps(each)}}}}}' for each in replies],
    }  # fmt: skip


def _many_ops(count: int) -> Columns:
    """Tools in tools, three deep."""
    return {
        "op_id": list(range(1, count + 1)),
        "parent_id": [None if at % 10 == 0 else (at // 10) * 10 + 1 for at in range(count)],
        "name": [("plan", "search", "python")[at % 3] for at in range(count)],
        "kind": ["tool"] * count,
        "start_ns": [10**12 + at * 10**6 for at in range(count)],
        "end_ns": [10**12 + (at + (10 if at % 10 == 0 else 1)) * 10**6 for at in range(count)],
        "status": ["error" if at % 97 == 0 else "ok" for at in range(count)],
        "payload": ['{"inputs":{"query":"words"},"outputs":"more words"}'] * count,
    }


def _long_response(rng: random.Random, count: int) -> Columns:
    pieces = [f" {rng.choice(WORDS)}" for _ in range(count)]
    ids = [rng.randrange(150_000) for _ in range(count + 10)]
    reply = _said(["".join(pieces)])
    return {
        **reply,
        "prompt_tokens": [10],
        "response_tokens": [count],
        "tokens": [pa.array(ids, pa.int32())],
        "logprobs": [pa.array([-rng.random() for _ in range(count)], pa.float32())],
        "response_mask": [pa.array([1] * count, pa.int8())],
        "text": ["question! " + "".join(pieces)],
        "prompt_chars": [10],
        "piece_chars": [pa.array([1] * 10 + [len(each) for each in pieces], pa.int32())],
    }
