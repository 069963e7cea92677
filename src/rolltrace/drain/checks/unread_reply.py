"""unread_reply: a model call from which neither text nor tokens could be read.

Its answer is in no conversation and no export, so somebody should know. What came back is told by its form.
"""

from __future__ import annotations

from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record import Marker, Opaque
from rolltrace.record.streams import length_of

_MOST_FIELDS = 16


def unread_reply(op: OpFacts) -> Finding | None:
    fields = op.fields
    if fields["kind"] != "llm" or fields["status"] != "ok" or op.replies:
        return None
    if op.response_ids_count is not None or fields.get("logprobs") is not None:
        return None
    return Finding("unread_reply", _form(op.outputs))


def _form(outputs: Any) -> dict[str, Any]:
    length = length_of(outputs)
    if length is not None:
        return {"returned": "stream", "items": length.total, "kept_items": length.kept}
    if isinstance(outputs, Opaque):
        return {"returned": outputs.type}
    if isinstance(outputs, Marker):
        return {"returned": type(outputs).__name__}
    if isinstance(outputs, dict):
        return {"returned": "dict", "fields": [str(name) for name in list(outputs)[:_MOST_FIELDS]]}
    return {"returned": "nothing" if outputs is None else type(outputs).__name__}
