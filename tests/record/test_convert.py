"""What each type becomes: models, arrays, tensors, images, and things that have no value to record."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import enum
import pathlib
import types
from typing import Any

import attrs
import numpy as np
import pydantic
import pytest
from PIL import Image as Pictures

from rolltrace.record import Array, ArraySummary, Image, Opaque, Snapshotter, decode_value


def seen(value: Any, **limits: Any) -> Any:
    return decode_value(Snapshotter(**limits).take(value))


class Inner(pydantic.BaseModel):
    number: int = 1
    _secret: str = pydantic.PrivateAttr("hidden")


class Outer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    inner: Inner
    many: list[Inner]


class Root(pydantic.RootModel[list[int]]):
    pass


class Login(pydantic.BaseModel):
    url: pydantic.HttpUrl
    password: pydantic.SecretStr


def test_a_pydantic_model_keeps_its_nested_and_extra_fields() -> None:
    found = seen(Outer(inner=Inner(), many=[Inner(number=2)], added="x"))  # type: ignore[call-arg]
    assert found == {"inner": {"number": 1}, "many": [{"number": 2}], "added": "x"}


def test_a_root_model_is_its_root() -> None:
    assert seen([Root([1, 2])]) == [[1, 2]]


def test_a_pydantic_secret_is_not_recorded_and_a_url_is_text() -> None:
    found = seen(Login(url="http://host/", password="hunter2"))  # type: ignore[arg-type]
    assert found == {"url": "http://host/", "password": Opaque("pydantic.types.SecretStr", {})}


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    later: int = dataclasses.field(init=False)


@dataclasses.dataclass
class Unset:
    x: int
    later: int = dataclasses.field(init=False)
    shared: Any = dataclasses.field(default_factory=list)


@attrs.define
class Attrs:
    x: int
    inner: Any = None


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Slotted(1), {"x": 1}),
        (Unset(1), {"x": 1, "shared": []}),
        (Attrs(1, Attrs(2)), {"x": 1, "inner": {"x": 2, "inner": None}}),
        (Color.RED, "red"),
        (Color.PAIR, [1, 2]),
        (enum.Flag("Flag", "A B")(3), 3),
        (pathlib.Path("/a/b"), "/a/b"),
        (pathlib.PurePosixPath("/a/\udcff"), "/a/\udcff"),
        (datetime.datetime.fromisoformat("2026-01-02T03:00:00"), "2026-01-02T03:00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (1 + 2j, 1 + 2j),
        (collections.deque([1, 2]), [1, 2]),
        (collections.UserDict(a=1), {"a": 1}),
        (collections.UserList([1, 2]), [1, 2]),
        (collections.UserString("ab"), "ab"),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        ({"a": 1}.values(), [1]),
        (memoryview(b"abcd")[::2], b"ac"),
        (range(0, 10**15, 2), Opaque("builtins.range", {"start": 0, "stop": 10**15, "step": 2})),
        (len, Opaque("builtins.builtin_function_or_method", {"name": "builtins.len"})),
        (ValueError("no", 3), Opaque("builtins.ValueError", {"args": ["no", "3"]})),
        (ValueError("\ud800"), Opaque("builtins.ValueError", {"args": ["\\ud800"]})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_known_type_becomes_plain_data(value: Any, expected: Any) -> None:
    assert seen({"value": value}) == {"value": expected}


def test_an_aware_datetime_keeps_its_instant() -> None:
    noon = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=8)))
    assert seen(noon) == noon


def test_a_time_zone_that_leads_out_of_the_calendar_is_kept_as_text() -> None:
    last = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    assert seen([last]) == ["9999-12-31T23:59:59.999999-05:00"]


DTYPES = [*np.typecodes["AllInteger"], "e", "f", "d", "F", "D", "?"]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_any_numeric_dtype_is_exact(dtype: str, order: str) -> None:
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(np.dtype(dtype).newbyteorder(order))
    found = seen(values)
    assert (type(found), np.dtype(found.dtype), found.shape) == (Array, values.dtype, (2, 3))
    assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    "values",
    [np.array(3), np.zeros(0), np.zeros((3, 0)), np.zeros((0, 3)), np.arange(12).reshape(3, 4).T[::2, ::-1]],
    ids=lambda values: str(values.shape),
)
def test_an_array_of_any_shape_keeps_it(values: np.ndarray[Any, Any]) -> None:
    assert (seen(values).shape, seen(values).tolist()) == (values.shape, values.tolist())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["a", "漢"]), ["a", "漢"]),
        (np.array([b"a"]), [b"a"]),
        (np.array([1, "x", None, [2]], dtype=object), [1, "x", None, [2]]),
        (np.array([0.5, 2], dtype=np.longdouble), [0.5, 2.0]),
        (np.array([1 + 2j], dtype=np.clongdouble), [1 + 2j]),
        (np.array(["2026-01-02T03:04:05.000000006"], "M8[ns]"), ["2026-01-02T03:04:05.000000006"]),
        (np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]), [[1, 2.5]]),
        (np.ma.masked_array([1, 2], mask=[False, True]), [1, None]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_an_array_that_is_not_plain_numbers_becomes_a_list(values: Any, expected: list[Any]) -> None:
    assert seen(values) == expected


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float16, np.float64, np.longdouble, np.bool_, np.complex64])
def test_a_numpy_scalar_becomes_its_number(kind: type) -> None:
    assert seen([kind(1)]) == [1]


def test_a_large_array_becomes_shape_dtype_and_statistics() -> None:
    snapshotter = Snapshotter(max_array_bytes=1000)
    found = decode_value(snapshotter.take(np.tile([0.0, 4.0], (50, 10))))
    statistics = {"min": 0.0, "max": 4.0, "mean": 2.0, "std": 2.0, "sampled": 1000}
    assert found == ArraySummary("numpy.ndarray", "float64", (50, 20), "cpu", statistics)
    assert snapshotter.cuts == 1


def test_statistics_of_infinite_values_do_not_warn() -> None:
    assert seen(np.full((9, 9), np.inf), max_array_bytes=10).statistics["max"] == np.inf


def test_an_array_larger_than_a_whole_record_becomes_a_summary() -> None:
    assert isinstance(seen(np.arange(1000), max_bytes=500), ArraySummary)


def test_token_ids_in_an_array_are_exact_whatever_the_limit_on_arrays() -> None:
    assert seen(np.arange(100_000), max_array_bytes=10).tolist() == list(range(100_000))


def test_an_array_module_array_is_exact() -> None:
    found = seen([array.array("i", [1, -2]), array.array("d", [0.5]), array.array("B", b"ab")])
    assert [each.tolist() for each in found] == [[1, -2], [0.5], [97, 98]]


class Tensor:
    """Looks like a tensor on a GPU: reading any value would wait for the device."""

    shape, dtype, layout = (2, 3), "torch.float32", "torch.strided"
    device = types.SimpleNamespace(type="cuda")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read, which would wait for the GPU")


Tensor.__module__ = "torch"


@pytest.mark.parametrize("limits", [{}, {"max_items": 100}], ids=["fast", "walk"])
def test_a_tensor_on_a_gpu_is_never_waited_for(limits: dict[str, int]) -> None:
    found = seen({"logits": Tensor()}, **limits)["logits"]
    assert (type(found), found.dtype, found.shape, found.statistics) == (
        ArraySummary,
        "torch.float32",
        (2, 3),
        None,
    )


def test_images_of_one_content_are_one_blob() -> None:
    kept: dict[str, Any] = {}
    snapshotter = Snapshotter(keep_blob=lambda name, info, data: kept.update({name: (info, data)}))
    red, same, wide = (Pictures.new("RGB", size, "red") for size in [(4, 2), (4, 2), (8, 1)])
    found = decode_value(snapshotter.take([red, same, wide]))
    assert found[0] == found[1] == Image(found[0].hash, "RGB", (4, 2), None)
    assert set(kept) == {found[0].hash, found[2].hash}
    assert kept[found[0].hash][1] == red.tobytes()


def test_a_keeper_that_fails_costs_only_the_image() -> None:
    def full(name: str, info: dict[str, Any], data: bytes) -> None:
        raise OSError

    found = decode_value(Snapshotter(keep_blob=full).take([1, Pictures.new("L", (1, 1)), 2]))
    assert (found[0], found[1].reason, found[2]) == (1, "OSError while it was recorded", 2)


@pytest.mark.parametrize("make", [iter, lambda items: (each for each in items), lambda items: map(str, items)])
def test_an_iterator_is_not_consumed(make: Any) -> None:
    iterator = make([1, 2, 3])
    assert isinstance(seen(iterator), Opaque)
    assert len(list(iterator)) == 3
