"""Token columns that contradict each other, or are not there.

length_mismatch: response tokens, logprobs and mask of one op are not equally many.

zero_logprobs: every logprob of a response is zero.

`no_text`: text beside token ids was asked for, and this op has tokens but no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record import OWN_PROCESS


def length_mismatch(op: OpFacts) -> Finding | None:
    fields = op.fields
    logprobs, mask = fields.get("logprobs"), fields.get("response_mask")
    if logprobs is None and mask is None:
        return None
    lengths = {"response_tokens": op.response_ids_count}
    lengths["logprobs"] = None if logprobs is None else len(logprobs)
    lengths["response_mask"] = None if mask is None else len(mask)
    present = {name: length for name, length in lengths.items() if length is not None}
    return Finding("length_mismatch", present) if len(set(present.values())) > 1 else None


_FEWEST = 4
"""A short answer may well be certain."""


def zero_logprobs(op: OpFacts) -> Finding | None:
    logprobs = op.fields.get("logprobs")
    if logprobs is None or len(logprobs) < _FEWEST or logprobs[0].as_py() != 0 or logprobs[-1].as_py() != 0:
        return None  # most of the time the first one tells
    are_zero = pc.all(pc.equal(logprobs, 0.0), skip_nulls=False).as_py()
    return Finding("zero_logprobs", {"logprobs": len(logprobs)}) if are_zero else None


def no_text(op: OpFacts, meta: Mapping[str, Any]) -> Finding | None:
    """No tokenizer was found for the op, or the one it has could not be saved or read.

    An op that its own process decodes is not looked at: its text comes later, or that process says why not.
    """
    fields = op.fields
    if not meta.get("token2text") or fields.get("tokens") is None or fields.get("end_ns") is None:
        return None
    tokenizer = fields.get("tokenizer")
    if fields.get("text") is not None or tokenizer == OWN_PROCESS:
        return None
    reason = "no tokenizer was found" if tokenizer is None else f"the tokenizer {tokenizer} could not be read"
    return Finding("no_text", {"reason": reason})
