"""JSON lines: one record a trajectory, with everything that was recorded. `import_jsonl` reads them back.

{"rolltrace": 1, <columns of trajectories>, "ops": [{..., "children": [...]}], "conversation": [...],
 "transitions": [...], "scores": [...], "notes": [...], "findings": [...]}
"""

from __future__ import annotations

from typing import Any, TextIO

from rolltrace.exchange.selection import Exported, Full, Selection
from rolltrace.exchange.text import json_text
from rolltrace.query import Op
from rolltrace.record import SPANS, WHERE

VERSION = 1
"""Of this format."""

_IN_PLACE = ("parent_id", "payload", "tokens", "logprobs", "response_mask")
OP_COLUMNS = tuple(
    column.name
    for column in SPANS.columns
    if column.name == "worker" or (column not in WHERE and column.name not in _IN_PLACE)
)
"""The plain columns of an op; its parent is the tree, and its tokens are in its inputs and outputs again."""


def write(selection: Selection, out: TextIO) -> Exported:
    """Write a line per trajectory."""
    count = 0
    for line in selection.each(lambda full: json_text(record_of(full), was_json=True)):
        out.write(line + "\n")
        count += 1
    return Exported(count)


def record_of(full: Full) -> dict[str, Any]:
    """A trajectory as the record that stands for it."""
    trajectory = full.trajectory
    record: dict[str, Any] = {"rolltrace": VERSION, **trajectory.to_dict()}
    events = {name: record.pop(name) for name in ("transitions", "scores", "notes", "findings")}
    ops = [_op(op, full) for op in trajectory.ops]
    return {**record, "ops": ops, "conversation": trajectory.conversation, **events}


def _op(op: Op, full: Full) -> dict[str, Any]:
    span = full.spans[op.op_id]
    # The text of tokens is large and read apart; most ops have no tokens.
    column = op.content.column if op.content is not None and op.content.has_tokens else _nothing
    return {
        **{name: span[name] if name in span else column(name) for name in OP_COLUMNS},
        "inputs": op.inputs,
        "outputs": op.outputs,
        "children": [_op(child, full) for child in op.children],
    }


def _nothing(column: str) -> None:
    return None
