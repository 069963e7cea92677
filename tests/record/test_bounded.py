"""No value, whatever it is, takes more than bounded time and memory to record.

Bounds are asserted as work and output, not as seconds: each of these values would otherwise take minutes, many
gigabytes or for ever, and end in the timeout of the test or a crash.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
import pytest
from PIL import Image as Pictures

from rolltrace.record import ArraySummary, Cut, Opaque, Snapshotter, decode_value
from rolltrace.record.bounded import BoundedEncoder, TooLong

MAX_BYTES = 1 << 20
FEW_BYTES = 1 << 16


@dataclasses.dataclass
class Data:
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    left: Any
    right: Any


class Pair(NamedTuple):
    left: Any
    right: Any


@attrs.define
class Attrs:
    left: Any
    right: Any


class Struct(msgspec.Struct):
    left: Any
    right: Any


KINDS: dict[str, Callable[[Any], Any]] = {
    "list": lambda inner: [inner, inner],
    "tuple": lambda inner: (inner, inner),
    "dict": lambda inner: {"left": inner, "right": inner},
    "dataclass": lambda inner: Data(inner, inner),
    "pydantic": lambda inner: Model(left=inner, right=inner),
    "named tuple": lambda inner: Pair(inner, inner),
    "attrs": lambda inner: Attrs(inner, inner),
    "struct": lambda inner: Struct(inner, inner),
    "user dict": lambda inner: collections.UserDict({"left": inner, "right": inner}),
}


def shared(kind: str, levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = KINDS[kind](value)
    return value


@pytest.mark.parametrize(("kind", "levels"), [("list", 28), *((kind, 60) for kind in KINDS)])
def test_structure_shared_at_every_level_is_cut(kind: str, levels: int) -> None:
    snapshotter = Snapshotter(max_bytes=FEW_BYTES)
    raw = snapshotter.take({"before": 1, "value": shared(kind, levels), "after": 2})
    assert len(raw) <= FEW_BYTES
    found = decode_value(raw)
    assert (found["before"], found["after"]) == (1, 2)
    assert snapshotter.cuts


@pytest.mark.parametrize("beside", [object(), "\ud800", 1 << 70], ids=["object", "surrogate", "integer"])
def test_shared_structure_beside_what_must_be_converted_is_cut(beside: Any) -> None:
    raw = Snapshotter(max_bytes=FEW_BYTES).take([beside, shared("list", 60), "after"])
    assert len(raw) <= FEW_BYTES


def test_what_is_shared_and_still_fits_is_kept_whole() -> None:
    value = shared("list", 16)
    assert decode_value(Snapshotter().take(value)) == value


def test_a_few_huge_lists_of_one_shared_text_are_cut() -> None:
    raw = Snapshotter(max_bytes=MAX_BYTES).take([[["x" * 100] * 1000] * 1000] * 1000)
    assert len(raw) <= MAX_BYTES
    assert isinstance(decode_value(raw), Cut)


class Endless(Mapping[int, int]):
    """Says that it has three items, and never stops to give more."""

    def __getitem__(self, key: int) -> int:
        return key

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1


class EndlessUserDict(collections.UserDict[int, int]):
    def __iter__(self) -> Iterator[int]:
        return iter(Endless())

    def __getitem__(self, key: int) -> int:
        return key


class EndlessSet(collections.abc.Set[int]):
    def __contains__(self, item: object) -> bool:
        return True

    def __len__(self) -> int:
        return 1 << 100

    def __iter__(self) -> Iterator[int]:
        return iter(Endless())


class EndlessDeque(collections.deque[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(Endless())


@pytest.mark.parametrize("kind", [Endless, EndlessUserDict, EndlessSet])
def test_what_never_stops_to_iterate_keeps_its_first_items(kind: type) -> None:
    snapshotter = Snapshotter()
    found = decode_value(snapshotter.take({"value": kind(), "after": 2}))
    assert found["after"] == 2
    assert (found["value"].limit, snapshotter.cuts) == ("items", 1)
    assert list(found["value"].kept)[:3] == [0, 1, 2]


def test_a_deque_is_read_without_its_own_methods() -> None:
    assert decode_value(Snapshotter().take([EndlessDeque([1, 2])])) == [[1, 2]]


def test_a_list_with_a_million_texts_keeps_the_first_of_them() -> None:
    found = decode_value(Snapshotter(max_bytes=MAX_BYTES).take([f"text {number}" for number in range(1_000_000)]))
    assert (found.limit, found.full_length, found.kept[:2]) == ("bytes", 1_000_000, ["text 0", "text 1"])
    assert len(found.kept) > 50_000


def test_a_map_with_a_million_items_keeps_the_first_of_them() -> None:
    found = decode_value(Snapshotter(max_bytes=MAX_BYTES).take({f"key {n}": n for n in range(1_000_000)}))
    assert (found.limit, found.full_length, found.kept["key 1"]) == ("bytes", 1_000_000, 1)
    assert len(found.kept) > 50_000


def test_a_large_value_that_fits_is_kept_whole_though_it_is_put_together_from_parts() -> None:
    value = {
        "ids": list(range(400_000)),
        "messages": [{"role": "user", "content": f"text {number}" * 20} for number in range(20_000)],
        "map": {f"key {number}": [number, None, "漢"] for number in range(50_000)},
    }
    snapshotter = Snapshotter()
    raw = snapshotter.take(value)
    assert len(raw) > 5 << 20
    assert (decode_value(raw), snapshotter.cuts) == (value, 0)


def test_a_few_odd_texts_in_a_very_long_list_cost_nothing_of_the_rest() -> None:
    value = [f"text {number}" for number in range(300_000)]
    for place in range(5, 300_000, 30_000):
        value[place] = "\ud800"
    assert decode_value(Snapshotter().take(value)) == value


class Text(str):
    pass


class Octets(bytes):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Text("x" * 2_000_000), Octets(2_000_000), memoryview(bytes(2_000_000)), array.array("q", [0]) * 250_000,
        1 << 17_000_000,
    ],
    ids=["text", "bytes", "memoryview", "array", "integer"],
)  # fmt: skip
def test_long_leaves_of_any_type_are_cut(value: Any) -> None:
    snapshotter = Snapshotter(max_bytes=MAX_BYTES)
    found = decode_value(snapshotter.take({"value": value, "after": 2}))
    assert (found["value"].limit, found["after"], snapshotter.cuts) == ("bytes", 2, 1)


@pytest.mark.parametrize("value", [np.array(["漢" * 1000] * 1000), np.ma.masked_array(np.zeros(200_000))])
def test_arrays_of_anything_over_the_limit_become_a_summary(value: Any) -> None:
    assert isinstance(decode_value(Snapshotter(max_bytes=MAX_BYTES).take([value]))[0], ArraySummary)


def test_a_picture_over_the_limit_is_not_even_decoded() -> None:
    found = decode_value(Snapshotter(max_bytes=MAX_BYTES).take([Pictures.new("RGB", (1000, 1000))]))
    assert found == [Opaque("PIL.Image.Image", {"mode": "RGB", "width": 1000, "height": 1000}, "too large")]


def test_very_many_objects_keep_the_first_of_them() -> None:
    class Thing:
        pass

    found = decode_value(Snapshotter().take([Thing() for _ in range(450_000)]))
    assert (found.full_length, type(found.kept[0])) == (450_000, Opaque)


@pytest.mark.parametrize(("levels", "wrap"), [(500, lambda v: [v]), (330, lambda v: {"a": v}), (50_000, lambda v: [v])])
def test_deep_arguments_are_recorded(levels: int, wrap: Callable[[Any], Any]) -> None:
    value: Any = "end"
    for _ in range(levels):
        value = wrap(value)
    found = decode_value(Snapshotter().take({"arguments": value, "after": 1}))
    assert found["after"] == 1
    assert found["arguments"]


GIANTS = """
import sys
from rolltrace.record import Snapshotter, decode_value
import resource
size = int(sys.argv[1])
value = eval(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
snapshotter = Snapshotter()
raw = snapshotter.take({"value": value, "after": 2})
assert decode_value(raw)["after"] == 2 and snapshotter.cuts and len(raw) <= 32 << 20
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("value", ["'x' * size", "b'x' * size", "[['x' * size]]", "{'a': [{'b': '漢' * (size // 2)}]}"])
def test_a_giant_text_is_not_copied(value: str) -> None:
    size = 2 << 30 if os.environ.get("ROLLTRACE_NIGHTLY") else 300 << 20
    done = subprocess.run([sys.executable, "-c", GIANTS, str(size), value], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250, "MiB more than before"


def test_encoding_stops_at_the_limit_and_goes_on_with_the_next_value() -> None:
    encode = BoundedEncoder(1000)
    with pytest.raises(TooLong):
        encode(shared("list", 60))
    assert msgspec.msgpack.decode(encode(list(range(100)))) == list(range(100))
    assert len(encode(bytes(995))) == 998


def test_the_memory_of_a_shared_structure_stays_within_bounds() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Snapshotter(max_bytes=MAX_BYTES).take(shared("list", 60))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 100


def test_an_encoder_is_the_same_after_every_value_also_one_that_did_not_fit() -> None:
    encode = BoundedEncoder(1000)
    for value in (["a" * 10] * 5, "b" * 900, [1] * 5000, {"c": None}, "d" * 990):
        try:
            assert encode(value) == msgspec.msgpack.encode(value)
        except TooLong:
            assert len(msgspec.msgpack.encode(value)) > 1000


def test_where_the_length_of_a_buffer_cannot_be_set_back_none_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        value = -1

    other_layout = SimpleNamespace(c_ssize_t=SimpleNamespace(from_address=lambda address: Elsewhere()))
    monkeypatch.setattr("rolltrace.record.bounded.ctypes", other_layout)
    encode = BoundedEncoder(1000)
    for value in ("a" * 500, "b", "c" * 900):
        assert encode(value) == msgspec.msgpack.encode(value)
