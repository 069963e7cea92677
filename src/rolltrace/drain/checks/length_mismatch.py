"""length_mismatch: response tokens, logprobs and mask of one op are not equally many."""

from __future__ import annotations

from rolltrace.drain.checks.check import Finding, OpFacts


def length_mismatch(op: OpFacts) -> Finding | None:
    fields = op.fields
    logprobs, mask = fields.get("logprobs"), fields.get("response_mask")
    if logprobs is None and mask is None:
        return None
    lengths = {"response_tokens": op.response_ids_count}
    lengths["logprobs"] = None if logprobs is None else len(logprobs)
    lengths["response_mask"] = None if mask is None else len(mask)
    found = {name: length for name, length in lengths.items() if length is not None}
    return Finding("length_mismatch", found) if len(set(found.values())) > 1 else None
