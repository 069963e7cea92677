"""`no_text`: tokens that should have a text and have none."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace.drain.checks import Finding, OpFacts
from rolltrace.drain.checks.token_columns import no_text

ON = {"token2text": True}


def found(meta: dict[str, Any], **fields: Any) -> list[Finding]:
    finding = no_text(OpFacts({"kind": "llm", "end_ns": 5, "tokens": [1, 2], **fields}, None, None), meta)
    return [] if finding is None else [finding]


def test_tokens_without_text_are_flagged_with_the_reason() -> None:
    assert found(ON) == [Finding("no_text", {"reason": "no tokenizer was found"})]
    assert found(ON, tokenizer="abc") == [Finding("no_text", {"reason": "the tokenizer abc could not be read"})]


@pytest.mark.parametrize(
    ("meta", "fields"),
    [
        ({"token2text": False}, {}),
        ({}, {}),
        (ON, {"text": "hello", "tokenizer": "abc"}),
        (ON, {"text": "", "tokenizer": "abc"}),
        (ON, {"tokens": None}),
        (ON, {"tokenizer": "own-process"}),
        (ON, {"end_ns": None}),
    ],
)
def test_nothing_is_flagged_where_no_text_is_missing(meta: dict[str, Any], fields: dict[str, Any]) -> None:
    assert found(meta, **fields) == []
