"""Whatever was written can be read: odd keys, deep nesting, values of a newer version, broken bytes."""

from __future__ import annotations

import array
import dataclasses
import datetime
import enum
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from rolltrace.record import Array, Cut, Marker, Opaque, Snapshotter, decode_value, to_json
from rolltrace.record.schema import MAX_DEPTH
from tests.nightly import nightly


def seen(value: Any) -> Any:
    return decode_value(Snapshotter().take(value))


@dataclasses.dataclass(frozen=True)
class Key:
    x: Any


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


OBJECT = object()
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, 1), (None, None), (1.5, 1.5), (b"x", b"x"), ((1, ("a", None)), (1, ("a", None))), (2j, 2j),
        (1 << 80, 1 << 80), (10**5000, 10**5000), ("\ud800", "\ud800"), (NOON, NOON), (frozenset({1}), (1,)),
        (Color.RED, "red"), (Color.PAIR, (1, 2)), (Key(1), '{"x": 1}'), ((Key(1), 2), '[{"x": 1}, 2]'),
        (Key(NOON), '{"x": "2026-01-02T12:00:00+00:00"}'),
        (OBJECT, '{"$opaque": {"type": "builtins.object", "fields": {}, "reason": ""}}'),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "int",
)  # fmt: skip
def test_a_mapping_keeps_any_key(key: Any, expected: Any) -> None:
    assert seen({key: "value", "other": [1]}) == {expected: "value", "other": [1]}


def test_keys_that_look_the_same_once_recorded_do_not_replace_each_other() -> None:
    found = seen({object(): 1, object(): 2, Key(1): 3})
    assert (len(found), sorted(found.values())) == (3, [1, 2, 3])


def test_everything_beside_an_odd_key_is_read_as_ever() -> None:
    beside = [
        None, True, False, 0, 127, 128, -1, -32, -33, 255, 256, 1 << 16, 1 << 32, (1 << 64) - 1, -(1 << 7),
        -(1 << 15), -(1 << 31), -(1 << 63), 0.5, "", "a" * 31, "b" * 32, "c" * 256, "d" * 70_000, b"",
        b"e" * 256, b"f" * 70_000,
        [], {}, list(range(15)), list(range(16)), list(range(70_000)), dict.fromkeys(range(15)),
        dict.fromkeys(range(70_000), "x"), NOON, 1j, 1 << 70, "\ud800" * 300, 1 << 600_000,
    ]  # fmt: skip
    assert seen({Key(1): beside}) == {'{"x": 1}': beside}


def test_markers_beside_an_odd_key_are_read_as_ever() -> None:
    found = seen({Key(1): [array.array("i", [1]), object()]})
    assert found == {'{"x": 1}': [Array("<i4", (1,), b"\1\0\0\0"), Opaque("builtins.object", {})]}


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, list | dict) and value:
        value, depth = value[0] if isinstance(value, list) else next(iter(value.values())), depth + 1
    return depth


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1k"], ids=["lists", "dicts"])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH])
def test_what_readers_can_hold_is_read_whole(opening: bytes, levels: int) -> None:
    assert depth_of(decode_value(opening * levels + b"\x07")) == levels


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1k"], ids=["lists", "dicts"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 330, 500, 50_000])
def test_deeper_nesting_is_cut_and_what_stands_beside_it_kept(opening: bytes, levels: int) -> None:
    before, deep, after = decode_value(b"\x93\x01" + opening * levels + b"\xc0\x02")
    assert (before, after, depth_of(deep)) == (1, 2, MAX_DEPTH - 1)
    while isinstance(deep, list | dict):
        deep = deep[0] if isinstance(deep, list) else deep["k"]
    assert deep == Cut("depth", 1, None)


def test_cuts_nested_deeper_than_the_stack_are_read() -> None:
    raw = b"\x01"
    for _ in range(2_000):
        raw = msgspec.msgpack.encode(Cut("items", 9, msgspec.Raw(raw)).ext())
    found, levels = decode_value(raw), 0
    while isinstance(found, Cut) and found.limit == "items":
        found, levels = found.kept, levels + 1
    assert (found, levels) == (Cut("depth", 1, None), MAX_DEPTH // 2)


def test_a_key_nested_deeper_than_the_stack_is_cut_too() -> None:
    (key,) = decode_value(b"\x81" + b"\x91" * 3_000 + b"\xc0\x01")
    for _ in range(MAX_DEPTH - 1):
        (key,) = key
    assert key == Cut("depth", 1, None)


def at_stack_depth(frames: int, call: Callable[[], Any]) -> Any:
    return at_stack_depth(frames - 1, call) if frames else call()


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1k", b"\x81\x91\x01"], ids=["lists", "dicts", "odd keys"])
def test_reading_gives_the_same_on_a_deep_stack(opening: bytes) -> None:
    raw = opening * 3_000 + b"\xc0"
    assert at_stack_depth(200, lambda: to_json(decode_value(raw))) == to_json(decode_value(raw))


def ext(code: int, *fields: Any) -> bytes:
    return msgspec.msgpack.encode(Ext(code, msgspec.msgpack.encode(list(fields))))


@pytest.mark.parametrize(
    "raw",
    [
        ext(1, "<f8", [1_000_000, 1_000_000], b""),
        ext(1, "<f8", [1_000_000_000, -1], b""),
        ext(1, "<f8", [2], b"\0" * 15),
        ext(1, "<q9", [1], b"\0"),
        ext(1, 7, [1], b"\0"),
        ext(1, "<f8", 3, b""),
        ext(1, "<f8", [1] * 5_000, b"\0" * 8),
        ext(2, "torch.Tensor", "f4", ["x"], "cpu", None),
        ext(2, "torch.Tensor", "f4", [1], "cpu", {"min": "low"}),
        ext(3, "../../etc/passwd", "RGB", [1, 1], None),
        ext(3, "/etc/passwd", "RGB", [1, 1], None),
        ext(3, "00ff" * 8, "RGB", [1], None),
        ext(4, 1, 2, 3),
        ext(5, "items", "many", None),
        ext(5, "items"),
        msgspec.msgpack.encode(Ext(5, b"\x07")),
        msgspec.msgpack.encode(Ext(5, b"\x93\x01")),
        msgspec.msgpack.encode(Ext(5, b"\xa3abc")),
        msgspec.msgpack.encode(Ext(10, b"0xzz")),
    ],
)
def test_an_extension_that_only_has_our_code_is_marked_and_leaves_the_rest(raw: bytes) -> None:
    before, found, after = decode_value(b"\x93\x01" + raw + b"\x02")
    assert (before, after, found.reason) == (1, 2, "cannot be read")


def test_an_array_of_nothing_is_small_whatever_its_shape() -> None:
    found = decode_value(ext(1, "<f8", [1_000_000, 1_000_000, 0], b""))
    assert found.tolist() == []
    assert to_json(found)["$array"]["values"] == []


def test_a_field_added_by_a_newer_version_is_left_out() -> None:
    raw = msgspec.msgpack.encode(Ext(4, msgspec.msgpack.encode(["some.Type", {}, "why", "new"])))
    assert decode_value(raw) == Opaque("some.Type", {}, "why")


def test_a_kind_of_value_added_by_a_newer_version_is_marked() -> None:
    found = decode_value(msgspec.msgpack.encode([1, Ext(99, b"abc")]))
    assert found == [1, Opaque("unknown", {"code": 99, "bytes": 3}, "written by a newer rolltrace")]


@pytest.mark.parametrize("code", [-1, 10, 11])
def test_an_extension_of_the_users_own_leaves_the_rest(code: int) -> None:
    found = seen(["before", Ext(code, b"zz"), "after"])
    assert (found[0], isinstance(found[1], Marker), found[2]) == ("before", True, "after")


@pytest.mark.parametrize("raw", [b"", b"\x92\x01", b"\xc1", b'{"a":1}', b"\x81\xa1a", b"\xc7\x02\x05zz"])
def test_bytes_that_are_no_payload_are_marked(raw: bytes) -> None:
    assert isinstance(decode_value(raw), Opaque)


@settings(max_examples=nightly(2000, 300), deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_reading_raise(raw: bytes) -> None:
    decode_value(raw)
