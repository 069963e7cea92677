"""Markers, and what every value is in JSON: strict, whole, and never an error."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from rolltrace.record import (
    Array,
    ArraySummary,
    Cut,
    Image,
    Marker,
    Opaque,
    Snapshotter,
    decode_value,
    to_json,
)


def in_json(value: Any) -> Any:
    text = json.dumps(to_json(decode_value(Snapshotter().take(value))), allow_nan=False, ensure_ascii=False)
    return json.loads(text.encode())


@pytest.mark.parametrize(
    "marker",
    [
        Array("<i4", (2, 1), b"\1\0\0\0\2\0\0\0"),
        ArraySummary("numpy.ndarray", "float32", (3, 4), "cuda:0", {"min": 0.5, "sampled": 3}),
        ArraySummary("torch.Tensor", "torch.int64", (), "meta", None),
        Image("00ff" * 8, "RGB", (4, 2), "PNG"),
        Opaque("a.B", {"x": 1, "y": None}, "why"),
        Cut("items", 9, [1, 2]),
    ],
    ids=lambda marker: type(marker).__name__,
)
def test_a_marker_comes_back_equal(marker: Marker) -> None:
    assert decode_value(msgspec.msgpack.encode(marker.ext())) == marker


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (Array("bfloat16", (3,), b"\x80\x3f\x00\xc0\x80\xff"), [1.0, -2.0, -math.inf]),
        (Array(">i2", (2,), b"\0\1\1\0"), [1, 256]),
        (Array("|b1", (2,), b"\0\1"), [False, True]),
        (Array("<c8", (1,), b"\0\0\x80\x3f\0\0\0\x40"), [1 + 2j]),
        (Array("<f8", (), b"\0\0\0\0\0\0\xe0\x3f"), 0.5),
        (Array("<f4", (2, 0), b""), [[], []]),
    ],
    ids=lambda value: getattr(value, "dtype", ""),
)
def test_an_array_gives_python_numbers(array: Array, expected: Any) -> None:
    assert array.tolist() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "漢"]}, {"a": [1, 2.5, None, True, "漢"]}),
        (b"ab", {"$bytes": "YWI="}),
        (math.nan, {"$float": "nan"}),
        ([math.inf, -math.inf], [{"$float": "inf"}, {"$float": "-inf"}]),
        ((1 << 64) - 1, (1 << 64) - 1),
        (1 << 64, {"$int": "0x10000000000000000"}),
        (complex(1, math.inf), {"$complex": [1.0, {"$float": "inf"}]}),
        ("a\ud800", "a\\ud800"),
        (np.array([1, 2], "i2"), {"$array": {"dtype": "<i2", "shape": [2], "values": [1, 2]}}),
        (object(), {"$opaque": {"type": "builtins.object", "fields": {}, "reason": ""}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_has_its_form_in_json(value: Any, expected: Any) -> None:
    assert in_json(value) == expected


def test_what_was_cut_shows_in_json() -> None:
    assert to_json(Cut("items", 9, [1])) == {"$cut": {"limit": "items", "full_length": 9, "kept": [1]}}


def test_an_integer_too_long_to_print_has_a_form_in_json() -> None:
    assert int(in_json(10**5000)["$int"], 16) == 10**5000


def test_keys_are_written_as_json_writes_them() -> None:
    value = {None: 0, True: 1, 2.5: 2, (1, "a"): 3, "\ud800": 4, 10**5000: 5}
    assert list(in_json(value))[:5] == ["null", "true", "2.5", '[1, "a"]', "\\ud800"]


def test_keys_that_are_the_same_text_do_not_replace_each_other() -> None:
    assert in_json({1: "number", "1": "text"}) == {"$map": [[1, "number"], ["1", "text"]]}


def test_an_empty_array_with_a_huge_shape_is_short_in_json() -> None:
    assert in_json(np.zeros((10**12, 0)))["$array"] == {"dtype": "<f8", "shape": [10**12, 0], "values": []}


@pytest.mark.parametrize("levels", [300, 900, 100_000])
def test_json_is_cut_where_it_would_be_too_deep_for_its_readers(levels: int) -> None:
    value = decode_value(b"\x91" * levels + b"\xc0")
    assert '{"$cut": {"limit": "depth"' in json.dumps(to_json(value))


def test_a_type_that_no_payload_has_is_named_in_json() -> None:
    assert to_json([object()]) == [{"$unknown": "object"}]
