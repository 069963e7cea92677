"""tool_error: a tool op raised, or its result says that it failed in the words of a protocol.

Only what is certain: `isError` is MCP's word, `is_error` that of Anthropic's tool results. A text that reads like an
error may be what the model asked for.
"""

from __future__ import annotations

from rolltrace.drain.checks.check import Finding, OpFacts

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
