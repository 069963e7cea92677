"""A store in which every field that can hold traced text holds HTML, script and terminal codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolltrace.record.tables import TABLES
from rolltrace.store import Partition, prepare, write_part

STEPS, SAMPLES, ROLLOUTS = 2, 2, 2
START_NS = 1_760_000_000_000_000_000
_GIVEN = frozenset({"trajectory_id", "status", "kind", "parent_trajectory_id", "tokenizer"})
"""Ids, and words that mean something to the views."""


def hostile(field: str) -> str:
    """Text that does something if it is taken for HTML, and says which field it was in."""
    return (
        f"<img src=x onerror=\"alert('{field}')\"><script>alert('{field}')</script>"
        f"<a href=\"javascript:alert('{field}')\">[{field}](javascript:alert(1))</a>"
        f"\"'><svg onload=alert(1)>\x1b[31m\u202e/../{field}"
    )


PROJECT, EXPERIMENT, SAMPLE = hostile("project"), hostile("experiment"), hostile("sample_index")


def write_hostile_store(store: Path) -> list[str]:
    """Write it; the ids of its trajectories."""
    prepare(store)
    ids = []
    for step in range(STEPS):
        rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in TABLES}
        for sample in range(SAMPLES):
            for rollout in range(ROLLOUTS):
                number = len(ids)
                trajectory_id = f"{(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128:032x}"
                ids.append(trajectory_id)
                for table in TABLES:
                    rows[table.name] += _rows(table, trajectory_id, step, sample, rollout, number)
        for table in TABLES:
            write_part(
                store,
                Partition(PROJECT, EXPERIMENT, step),
                table,
                "20261116T000000-1-00000000-000000",
                rows[table.name],
            )
    return ids


def _rows(table: Any, trajectory_id: str, step: int, sample: int, rollout: int, number: int) -> list[dict[str, Any]]:
    at = START_NS + number * 10**9
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.type in ("text", "long text") and column.name not in _GIVEN:
            row[column.name] = hostile(f"{table.name}.{column.name}")
        elif column.type == "json":
            row[column.name] = json.dumps(
                {hostile(f"{table.name}.{column.name} key"): hostile(f"{table.name}.{column.name}")}
            )
    row |= {
        "trajectory_id": trajectory_id,
        "project": PROJECT,
        "experiment": EXPERIMENT,
        "step": step,
        "rollout_n": rollout,
        "sample_index": SAMPLE if sample else "1",
        "sample_is_int": False,
        "validate": False,
        "run": hostile("run"),
        "worker": hostile("worker"),
        "run_ns": START_NS,
        "start_ns": at,
        "end_ns": at + 10**9,
        "time_ns": at,
        "op_id": number + 1,
    }
    if table.name == "trajectories":
        row |= {"status": "error" if rollout else "ok", "is_group": False, "op_id": None}
    if table.name == "spans":
        names = ("llm", "tool", "other")
        rows = [
            {
                **row,
                "kind": kind,
                "status": "error" if rollout else "ok",
                "op_id": 10 * number + at,
                "start_ns": row["start_ns"] + at,
                "name": hostile(f"{kind} name"),
                "payload": _payload(kind),
            }
            for at, kind in enumerate(names, 1)
        ]
        tokens = {
            "tokens": [1, 2, 3, 4],
            "prompt_tokens": 2,
            "response_tokens": 2,
            "logprobs": [-0.5, -1.0],
            "response_mask": [1, 1],
            "text": "<b>p</b><i>r</i>",
            "prompt_chars": 8,
            "piece_chars": [4, 4, 4, 4],
        }
        rows[0] |= tokens
        return [{name: value for name, value in each.items() if name in _names(table)} for each in rows]
    if table.name == "scores":
        row |= {"value": 1.0 if rollout else 0.25, "terms": json.dumps({hostile("term"): 0.5})}
        rows = [row, {**row, "name": "reward"}]
        return [{name: value for name, value in each.items() if name in _names(table)} for each in rows]
    if table.name == "losses":
        row |= {"count": 3, "trajectory_id": None}  # else it would mean that the trajectory was not kept
    if table.name == "transitions":
        row |= {"reward": 0.5, "episode_done": True, "turn": 0, "backfill": False, "amends": False}
    return [{name: value for name, value in row.items() if name in _names(table)}]


def _names(table: Any) -> set[str]:
    return {column.name for column in table.columns}


def _payload(kind: str) -> str:
    if kind != "llm":
        return json.dumps({"inputs": {hostile("argument"): hostile("value")}, "outputs": hostile("result")})
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": hostile("tool call"), "arguments": json.dumps({hostile("key"): 1})},
    }
    messages = [
        {"role": hostile("role"), "content": hostile("content"), "name": hostile("author")},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": hostile("part")},
                {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
            ],
        },
        {
            "role": "assistant",
            "content": hostile("answer"),
            "reasoning_content": hostile("reasoning"),
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "c1", "content": hostile("tool result")},
    ]
    return json.dumps({"inputs": {"messages": messages}, "outputs": {"role": "assistant", "content": hostile("reply")}})
