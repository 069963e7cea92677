"""Records on disk: complete, tagged, open to fields of newer versions."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from rolltrace.record import (
    NOTHING,
    Blob,
    Coordinates,
    Error,
    Event,
    OpEnd,
    OpStart,
    Record,
    Snapshotter,
    TrajectoryEnd,
    TrajectoryStart,
    clean_text,
    coordinate,
    decode_coordinates,
    decode_record,
    decode_value,
    encode_record,
)

ID = bytes(range(16))
WHERE = Raw(msgspec.msgpack.encode(Coordinates(3, "sample", 1, True)))
VALUE = Raw(Snapshotter().take({"ids": [1, 2], "odd": "\ud800"}))
RECORDS: list[Record] = [
    TrajectoryStart(ID, WHERE, "rollout", 1, None, 0, VALUE),
    TrajectoryEnd(ID, WHERE, "rollout", 1, 2, "error", Error("ValueError", "no", "trace"), ID, 7, VALUE),
    OpStart(ID, WHERE, 5, 0, "generate", "llm", 1, NOTHING),
    OpEnd(ID, WHERE, 5, 0, "generate", "llm", 1, 2, "ok", None, VALUE, VALUE, "worker"),
    Event(ID, WHERE, "tag", 1, 0, VALUE),
    Blob("00ff", "image/raw", VALUE, b"pixels"),
]
by_type = pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)


@by_type
def test_a_record_comes_back_equal(record: Record) -> None:
    again = decode_record(encode_record(record))
    assert (type(again), encode_record(again)) == (type(record), encode_record(record))


@by_type
def test_a_record_can_be_read_from_a_memoryview(record: Record) -> None:
    assert type(decode_record(memoryview(encode_record(record)))) is type(record)


@by_type
def test_a_field_added_by_a_newer_version_is_skipped(record: Record) -> None:
    fields = msgspec.msgpack.decode(encode_record(record))
    raw = msgspec.msgpack.encode([*fields, "from the future"])
    assert type(decode_record(raw)) is type(record)


def test_a_field_that_an_older_version_did_not_write_gets_its_default() -> None:
    end = OpEnd(ID, WHERE, 5, 0, "generate", "llm", 1, 2, "ok", None, NOTHING, NOTHING, "worker", "abc")
    fields = msgspec.msgpack.decode(encode_record(end), type=list[Raw])
    older = decode_record(msgspec.msgpack.encode(fields[:-2]))
    assert isinstance(older, OpEnd)
    assert (older.thread, older.tokenizer) == ("", "")


def test_a_field_that_this_version_does_not_know_is_skipped() -> None:
    end = OpEnd(ID, WHERE, 5, 0, "generate", "llm", 1, 2, "ok", None, NOTHING, NOTHING, "worker", "abc")
    fields = msgspec.msgpack.decode(encode_record(end), type=list[Raw])
    newer = msgspec.msgpack.encode([*fields, b"offsets", 7])
    assert decode_record(memoryview(newer)) == end


def test_a_payload_inside_a_record_is_the_value_that_was_there() -> None:
    end = decode_record(encode_record(RECORDS[3]))
    assert isinstance(end, OpEnd)
    assert decode_value(end.outputs) == {"ids": [1, 2], "odd": "\ud800"}


def test_an_absent_payload_is_none() -> None:
    assert decode_value(NOTHING) is None


def test_coordinates_come_back_as_they_were() -> None:
    event = decode_record(encode_record(RECORDS[4]))
    assert isinstance(event, Event)
    assert decode_coordinates(event.coordinates) == Coordinates(3, "sample", 1, True)


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"\x91\xa3new", b"\x00garbage"])
def test_bytes_that_are_no_record_are_an_error(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_record(raw)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (3, 3),
        (3.0, 3),
        (True, 1),
        ("uuid", "uuid"),
        ("\ud800", "\\ud800"),
        (1 << 127, str(1 << 127)),
    ],
)
def test_a_coordinate_is_a_plain_int_or_text(given: object, expected: object) -> None:
    assert coordinate(given) == expected


def test_clean_text_can_be_written_as_utf8() -> None:
    assert clean_text("a\ud800漢").encode() == b"a\\ud800" + "漢".encode()
