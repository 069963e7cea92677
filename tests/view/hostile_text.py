"""A store in which every field that can hold traced text holds HTML, script and terminal codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolltrace.tables import TABLE_SCHEMAS, Place, TableSchema
from tests.draining import add_rows

STEPS, SAMPLES, ROLLOUTS = 2, 2, 2
START_NS = 1_760_000_000_000_000_000
_GIVEN = frozenset({"trajectory_id", "status", "parent_trajectory_id", "tokenizer", "message_id", "saw"})
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
    ids = []
    for step in range(STEPS):
        rows: dict[str, list[dict[str, Any]]] = {schema.name: [] for schema in TABLE_SCHEMAS}
        for sample in range(SAMPLES):
            for rollout in range(ROLLOUTS):
                number = len(ids)
                trajectory_id = f"{(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128:032x}"
                ids.append(trajectory_id)
                for schema in TABLE_SCHEMAS:
                    rows[schema.name] += _rows(schema, trajectory_id, step, sample, rollout, number)
        add_rows(store, Place(PROJECT, EXPERIMENT, step), rows)
    return ids


def _rows(
    schema: TableSchema, trajectory_id: str, step: int, sample: int, rollout: int, number: int
) -> list[dict[str, Any]]:
    begun_ns = START_NS + number * 10**9
    row: dict[str, Any] = {}
    for column in schema.columns:
        if column.type in ("text", "long text") and column.name not in _GIVEN:
            row[column.name] = hostile(f"{schema.name}.{column.name}")
        elif column.type == "json":
            key = hostile(f"{schema.name}.{column.name} key")
            row[column.name] = json.dumps({key: hostile(f"{schema.name}.{column.name}")})
    row |= {
        "trajectory_id": trajectory_id,
        "project": PROJECT,
        "experiment": EXPERIMENT,
        "step": step,
        "rollout_n": rollout,
        "sample_index": SAMPLE if sample else "1",
        "validate": False,
        "run": hostile("run"),
        "worker": hostile("worker"),
        "run_ns": START_NS,
        "start_ns": begun_ns,
        "end_ns": begun_ns + 10**9,
        "time_ns": begun_ns,
        "op_id": number + 1,
    }
    rows = [row]
    if schema.name == "trajectories":
        row |= {"status": "error" if rollout else "ok", "status_rank": 4, "tags_ns": begun_ns, "task_ns": begun_ns}
        row |= {"last_call_ns": begun_ns, "last_ns": begun_ns + 10**9, "turns": 1, "tool_calls": 1, "tool_errors": 1}
        row |= {"response_tokens": 2, "prompt_tokens": 2, "records": 5, "flags": [hostile("flags.flag")]}
    elif schema.name == "group_records":
        rows = [] if number else [row | {"trajectory_id": f"{step:032x}", "status": "ok", "status_rank": 4}]
    elif schema.name == "ops":
        rows = [
            {
                **row,
                "kind": kind,
                "status": "error" if rollout else "ok",
                "op_id": 10 * number + at,
                "start_ns": begun_ns + at,
                "name": hostile(f"{kind} name"),
                "payload": _payload(kind),
                "payload_bytes": len(_payload(kind)),
                "prompt_tokens": 2 if kind == "llm" else None,
                "response_tokens": 2 if kind == "llm" else None,
                "turn": 0 if kind == "llm" else None,
            }
            for at, kind in enumerate(("llm", "tool", "other"), 1)
        ]
    elif schema.name == "tokens":
        row |= {
            "op_id": 10 * number + 1,
            "start_ns": begun_ns + 1,
            "ids": [1, 2, 3, 4],
            "prompt_tokens": 2,
            "logprobs": [-0.5, -1.0],
            "mask": [1, 1],
            "text": "<b>p</b><i>r</i>",
            "prompt_chars": 8,
            "piece_chars": [4, 4, 4, 4],
        }
    elif schema.name == "messages":
        rows = [{**row, **message} for message in _messages(10 * number)]
    elif schema.name == "scores":
        row |= {"value": 1.0 if rollout else 0.25, "terms": json.dumps({hostile("term"): 0.5})}
        rows = [row, {**row, "name": "reward"}]
    elif schema.name == "losses":
        row |= {"count": 3, "trajectory_id": None}  # else it would mean that the trajectory was not kept
    elif schema.name == "transitions":
        row |= {"reward": 0.5, "episode_done": True, "turn": 0, "backfill": False, "amends": False}
    elif schema.name == "blobs":
        row |= {"data": b"<svg onload=alert(1)>"}
    names = {column.name for column in schema.columns}
    return [{name: value for name, value in each.items() if name in names} for each in rows]


def _messages(first_op: int) -> list[dict[str, Any]]:
    call = {"id": "c1", "name": hostile("tool call"), "arguments": json.dumps({hostile("key"): 1})}
    parts = [
        {"type": "text", "text": hostile("part")},
        {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
    ]
    messages = [
        {"role": hostile("role"), "author": "user", "text": hostile("content")},
        {"role": "user", "author": "user", "text": hostile("part"), "parts": json.dumps(parts)},
        {
            "role": "assistant",
            "author": "policy",
            "op_id": first_op + 1,
            "text": hostile("answer"),
            "reasoning": hostile("reasoning"),
            "calls": json.dumps([call]),
        },
        {
            "role": "tool",
            "author": "tool",
            "op_id": first_op + 2,
            "call_id": "c1",
            "tool_name": hostile("tool call"),
            "text": hostile("tool result"),
        },
        {"role": "assistant", "author": "policy", "op_id": first_op + 1, "text": hostile("reply")},
    ]
    empty = {"kind": "message", "turn": 0, "op_id": None, "calls": None, "parts": None, "detail": None}
    empty |= {"reasoning": None, "tool_name": None, "call_id": None, "images": []}
    return [{**empty, **each, "seq": at, "message_id": f"m{at}"} for at, each in enumerate(messages)]


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
