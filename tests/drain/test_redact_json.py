"""The JSON of a value without secrets."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings

from rolltrace.drain import Redactor
from rolltrace.record import Snapshotter, to_json
from tests.drain.payloads import SECRET, payloads
from tests.nightly import nightly

META = {"project": "p", "experiment": "e", "writer": "w", "run": "r", "run_ns": 5}
snapshot = Snapshotter().take


@settings(max_examples=nightly(1000, 25), deadline=None)
@given(payloads)
def test_json_is_that_of_the_value_without_secrets(value: Any) -> None:
    clean = Redactor().json(value)
    assert clean == msgspec.json.encode(to_json(Redactor().value(value))).decode()
    json.loads(clean)


def test_a_value_with_secrets_is_no_more_what_it_was() -> None:
    pieces = [{"delta": {"content": SECRET[at : at + 5]}} for at in range(0, len(SECRET), 5)]
    for value in (
        {"chunks": pieces},
        ["--password", "hunter2!"],
        {"name": "Authorization", "value": "abcd1234efgh5678ij"},
    ):
        assert "redacted" in Redactor().json(value)
    harmless = {"chunks": [{"delta": {"content": "so"}}, {"delta": {"content": "it goes"}}]}
    assert json.loads(Redactor().json(harmless)) == harmless
