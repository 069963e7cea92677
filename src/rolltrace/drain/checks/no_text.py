"""`no_text`: text beside token ids was asked for, and this op has tokens but no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record.tokens import OWN_PROCESS


def no_text(op: OpFacts, meta: Mapping[str, Any]) -> Iterator[Finding]:
    """No tokenizer was found for the op, or the one it has could not be saved or read.

    An op that its own process decodes is not looked at: its text comes later, or that process says why not.
    """
    fields = op.fields
    has_tokens = fields.get("tokens") is not None and fields.get("end_ns") is not None
    if meta.get("token2text") and has_tokens and fields.get("text") is None and fields.get("tokenizer") != OWN_PROCESS:
        tokenizer = fields.get("tokenizer")
        reason = "no tokenizer was found" if tokenizer is None else f"the tokenizer {tokenizer} could not be read"
        yield Finding("no_text", {"reason": reason})
