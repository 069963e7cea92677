"""How an op or a trajectory ended.

interrupted: its process died before the op or the trajectory ended.

tool_error: a tool op raised, or its result says that it failed in the words of a protocol.

Only what is certain: `isError` is MCP's word, `is_error` that of Anthropic's tool results. A text that reads like an
error may be what the model asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts


def op_interrupted(op: OpFacts) -> Finding | None:
    return trajectory_interrupted(op.fields)


def trajectory_interrupted(fields: Mapping[str, Any]) -> Finding | None:
    return Finding("interrupted") if fields["status"] == "interrupted" else None


ERROR_NAMES = ("isError", "is_error")


def tool_error(op: OpFacts) -> Finding | None:
    if op.fields["kind"] != "tool":
        return None
    if op.fields["status"] == "error":
        return Finding("tool_error", {"error": op.fields["error"]})
    outputs = op.outputs
    if isinstance(outputs, dict) and any(outputs.get(name) is True for name in ERROR_NAMES):
        return Finding("tool_error", {})
    return None
