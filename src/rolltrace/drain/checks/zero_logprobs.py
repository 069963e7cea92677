"""zero_logprobs: every logprob of a response is zero."""

from __future__ import annotations

import pyarrow.compute as pc

from rolltrace.drain.checks.check import Finding, OpFacts

_FEWEST = 4
"""A short answer may well be certain."""


def zero_logprobs(op: OpFacts) -> Finding | None:
    logprobs = op.fields.get("logprobs")
    if logprobs is None or len(logprobs) < _FEWEST or logprobs[0].as_py() != 0 or logprobs[-1].as_py() != 0:
        return None  # most of the time the first one tells
    are_zero = pc.all(pc.equal(logprobs, 0.0), skip_nulls=False).as_py()
    return Finding("zero_logprobs", {"logprobs": len(logprobs)}) if are_zero else None
