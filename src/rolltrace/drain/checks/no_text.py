"""`no_text`: text beside token ids was asked for, and this op has tokens but no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record.tokens import OWN_PROCESS


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
