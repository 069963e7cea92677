"""empty_response: a model call came back with no tokens, or with no text."""

from __future__ import annotations

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record.messages import has_more, text_of

_ABORTED = frozenset({"abort", "aborted", "cancelled"})
"""Somebody stopped it before it could say anything: verl does when the weights change."""


def empty_response(op: OpFacts) -> Finding | None:
    fields = op.fields
    if fields["status"] != "ok" or not op.is_model_call:
        return None
    reason = fields.get("finish_reason")
    if reason in _ABORTED:
        return None
    if op.response_ids_count is None and op.replies:
        is_empty = len(op.replies) == 1 and not has_more(op.replies[0]) and not text_of(op.replies[0]).strip()
    else:
        is_empty = fields.get("response_tokens") == 0
    return Finding("empty_response", {"finish_reason": reason} if reason else {}) if is_empty else None
