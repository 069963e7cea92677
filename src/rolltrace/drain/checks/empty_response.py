"""empty_response: a model call came back with no tokens, or with no text."""

from __future__ import annotations

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.drain.checks.reply import reply_of

_ABORTED = frozenset({"abort", "aborted", "cancelled"})
"""Somebody stopped it before it could say anything: verl does when the weights change."""


def empty_response(op: OpFacts) -> Finding | None:
    fields = op.fields
    if fields["status"] != "ok" or not op.is_model_call:
        return None
    reason = fields.get("finish_reason")
    if reason in _ABORTED:
        return None
    tokens = fields.get("response_tokens")
    if tokens is None:
        reply = reply_of(op.outputs)
        is_empty = reply is not None and not reply.has_more and not reply.text.strip()
    else:
        is_empty = tokens == 0
    return Finding("empty_response", {"finish_reason": reason} if reason else {}) if is_empty else None
