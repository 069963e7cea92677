"""What was there at call time, in bytes: the promises of `Snapshotter.take`."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltrace.record import Array, Opaque, Snapshotter, decode_value, to_json
from rolltrace.record.schema import MAX_DEPTH
from tests.nightly import nightly


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


def seen(value: Any, **limits: Any) -> Any:
    return decode_value(Snapshotter(**limits).take(value))


numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(1 << 200), max_value=1 << 200),
    st.sampled_from([-(1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1 << 64, math.nan, math.inf, -math.inf, -0.0]),
    st.floats(allow_nan=True, allow_infinity=True),
)
texts = st.one_of(
    st.text(alphabet=st.characters()),
    st.text(alphabet="a\0é漢😀\ud800\udfff"),  # lone surrogates included
    st.text(alphabet="ab漢").map(lambda text: text * 60),
)
instants = st.datetimes(timezones=st.just(datetime.timezone.utc))
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=40), instants)
dtypes = st.sampled_from(["i1", "<i4", ">i8", "u2", "<f2", "f4", ">f8", "b1", "c8", "<c16"])
arrays = st.builds(
    lambda dtype, shape, step: np.arange(math.prod(shape)).astype(dtype).reshape(shape)[..., ::step],
    dtypes,
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([1, 2, -1]),
)
numpy_scalars = st.sampled_from([np.int64(-3), np.uint8(7), np.float32(0.5), np.float16(2), np.bool_(True)])
keys = st.one_of(st.none(), st.booleans(), st.integers(), texts, st.binary(max_size=8), st.tuples(st.integers(), texts))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=6),
        st.tuples(inner, inner),
        st.frozensets(st.one_of(st.integers(), texts), max_size=5),
        st.sets(st.binary(max_size=5), max_size=5),
        st.dictionaries(keys, inner, max_size=6),
        st.builds(Point, inner, inner),
    )


values = st.recursive(st.one_of(scalars, arrays, numpy_scalars), containers, max_leaves=25)


def same(found: Any, value: Any) -> bool:
    """Whether the recorded value is the one that was given, by rules of its own."""
    if isinstance(value, np.ndarray):
        return (
            isinstance(found, Array)
            and np.dtype(found.dtype) == value.dtype
            and found.shape == value.shape
            and found.tolist() == value.tolist()
        )
    if isinstance(value, np.generic):
        return bool(found == value.item()) and type(found) is type(value.item())
    if isinstance(value, float):
        return type(found) is float and (found == value or (math.isnan(found) and math.isnan(value)))
    if isinstance(value, list | tuple):
        return type(found) is list and len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, set | frozenset):
        return type(found) is list and len(found) == len(value) and set(found) == value
    if isinstance(value, Point):
        return same(found, {"x": value.x, "y": value.y})
    if isinstance(value, dict):
        return found.keys() == value.keys() and all(same(found[key], value[key]) for key in value)
    return type(found) is type(value) and bool(found == value)


generated = settings(max_examples=nightly(5000, 150), deadline=None, derandomize=True, database=None)
fewer = settings(generated, max_examples=nightly(2000, 60))


@generated
@given(values)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert same(seen(value), value)


@fewer
@given(values)
def test_limits_that_are_not_reached_change_nothing(value: Any) -> None:
    assert same(seen(value, max_items=10_000, max_depth=100), value)


@generated
@given(
    values,
    st.integers(50, 5000),
    st.none() | st.integers(0, 10),
    st.integers(0, 6) | st.just(MAX_DEPTH),
    st.integers(0, 200),
)
def test_under_any_limits_the_record_is_readable_and_small_enough(
    value: Any, max_bytes: int, max_items: int | None, max_depth: int, max_array_bytes: int
) -> None:
    limits = {"max_bytes": max_bytes, "max_items": max_items, "max_depth": max_depth}
    raw = Snapshotter(**limits, max_array_bytes=max_array_bytes).take(value)  # type: ignore[arg-type]
    decode_value(raw)
    assert len(raw) <= max_bytes


@fewer
@given(values)
def test_any_recorded_value_has_strict_json(value: Any) -> None:
    text = json.dumps(to_json(seen(value)), allow_nan=False, ensure_ascii=False)
    json.loads(text.encode())


def test_later_mutation_does_not_reach_the_snapshot() -> None:
    prompt = [{"role": "user", "content": ["a"]}]
    raw = Snapshotter().take(prompt)
    prompt[0]["content"].append("b")  # type: ignore[attr-defined]
    prompt.clear()
    assert decode_value(raw) == [{"role": "user", "content": ["a"]}]


def test_later_mutation_of_an_array_does_not_reach_the_snapshot() -> None:
    logprobs = np.array([-0.5, -1.5])
    raw = Snapshotter().take({"logprobs": logprobs})
    logprobs[:] = 0
    assert decode_value(raw)["logprobs"].tolist() == [-0.5, -1.5]


def test_token_ids_and_logprobs_keep_their_exact_values() -> None:
    value = {"token_ids": [151_643, 0, 2**31], "logprobs": [-1e-45, -0.1, -math.inf, 5e-324]}
    assert seen(value) == value


def test_token_lists_are_kept_whole_whatever_the_limit_on_items() -> None:
    value = {"ids": list(range(5000)), "logprobs": [None, *([-0.25] * 4999)], "mask": [True] * 5000}
    assert seen(value, max_items=3) == value


def test_a_token_list_that_is_the_whole_value_is_kept_whole_too() -> None:
    assert seen(list(range(5000)), max_items=3) == list(range(5000))


def test_a_huge_string_is_kept_within_the_limit() -> None:
    assert seen("x" * (20 << 20)) == "x" * (20 << 20)


def test_an_integer_beyond_64_bits_is_exact_wherever_it_stands() -> None:
    value = {"n": [10**6000, -(2**63), 2**64], 1 << 70: "key"}
    assert seen(value) == value


class Turn(NamedTuple):
    role: str
    text: str


@pytest.mark.parametrize(
    "value", [Turn("a", "b"), {"turn": Turn("a", "b")}, [Turn("a", "b")], {"turns": [Turn("a", "b")]}]
)
def test_a_named_tuple_keeps_its_names_at_the_top_and_right_inside(value: Any) -> None:
    assert json.dumps(to_json(seen(value))).count('{"role": "a", "text": "b"}') == 1


def test_a_named_tuple_as_a_key_stays_a_tuple() -> None:
    value = {Turn("a", "b"): Turn("c", "d")}
    assert seen(value) == {("a", "b"): {"role": "c", "text": "d"}}


def test_one_value_that_cannot_be_recorded_leaves_the_rest() -> None:
    found = seen({"before": 1, "odd": object(), "after": "\ud800"})
    assert found == {"before": 1, "odd": Opaque("builtins.object", {}), "after": "\ud800"}


def test_cuts_are_counted_over_all_snapshots() -> None:
    snapshotter = Snapshotter(max_bytes=100)
    for _ in range(3):
        snapshotter.take("x" * 1000)
    assert snapshotter.cuts == 3


def test_a_value_that_fits_is_not_cut_even_when_it_must_be_walked() -> None:
    value = {"large": "x" * 900, "odd": "\ud800", "more": [1 << 70]}
    assert seen(value, max_bytes=1000) == value


def test_cut_values_say_what_they_were() -> None:
    found = seen({"x": "abc" * 1000}, max_bytes=200)["x"]
    assert (found.limit, found.full_length) == ("bytes", 3000)
    assert ("abc" * 1000).startswith(found.kept)
