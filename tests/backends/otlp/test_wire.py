"""Answers of receivers; what we write is checked with the official classes, in tests/integrations/otlp."""

from __future__ import annotations

import pytest

from rolltrace.backends.otlp.wire import read_response


@pytest.mark.parametrize("body", [b"", b"\xff", b"<html>", b"\x0a\xff\xff", b"\x08" + b"\xff" * 20])
def test_an_answer_that_is_none_says_nothing(body: bytes) -> None:
    assert read_response(body).rejected_spans == 0
