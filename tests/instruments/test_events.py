"""Server-sent events out of bytes in pieces of any size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolltrace.instruments.events import Events

TOLD = [{"type": "a", "text": "déjà\n\nvu"}, {"n": [1, 2.5, None]}, {"type": "message_stop"}]
STREAM = b": a comment\n\n" + b"".join(f"event: x\ndata: {json.dumps(event)}\n\n".encode() for event in TOLD)


@given(st.lists(st.integers(1, 20), min_size=1), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_the_same_however_their_bytes_are_cut(sizes: list[int], end: bytes) -> None:
    data, events, found = STREAM.replace(b"\n", end), Events(), []
    while data:
        size = sizes[len(data) % len(sizes)]
        found += events.feed(data[:size])
        data = data[size:]
    assert found + events.rest() == TOLD
    assert events.is_done


def test_data_in_several_lines_is_one_value() -> None:
    assert Events().feed(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]


def test_what_is_no_json_stays_text() -> None:
    events = Events()
    assert events.feed(b"data: hello\n\ndata: [DONE]\n\n") == ["hello"]
    assert events.is_done


def test_an_event_without_its_end_is_read_if_it_can_be() -> None:
    whole, half = Events(), Events()
    assert whole.feed(b'data: {"a": 1}\n') == half.feed(b'data: {"a": ') == []
    assert whole.rest() == [{"a": 1}]
    assert half.rest() == []
    assert not whole.is_done


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe\n\n", b"data: \xff\n\n", b"data: " + b"[" * 100_000 + b"\n\n", b"\n\n\n\n"]
)
def test_junk_is_no_fault(junk: bytes) -> None:
    Events().feed(junk)
