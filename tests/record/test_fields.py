"""Objects of types that nobody told us about: all their public fields, and none of their code."""

from __future__ import annotations

import dataclasses
import logging
import types
from typing import Any

import numpy as np
import pytest

from rolltrace.record import Array, Cut, Opaque, Snapshotter, decode_value


def seen(value: Any, **limits: Any) -> Any:
    return decode_value(Snapshotter(**limits).take(value))


WAYS = pytest.mark.parametrize("limits", [{}, {"max_items": 10_000}], ids=["fast", "walk"])
"""Most values are encoded by msgspec; those under a limit on items are walked over."""


class Thing:
    """Whatever it is given."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        raise AssertionError("__repr__ was called")

    __str__ = __repr__

    @property
    def costly(self) -> int:
        raise AssertionError("a property was called")


class Slotted:
    __slots__ = ("_own", "missing", "x")

    def __init__(self, x: Any) -> None:
        self.x, self._own = x, 1


class Both(Slotted):
    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.y = 2


@dataclasses.dataclass
class Known:
    inner: Any


@WAYS
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Thing(a=1, b="x" * 1000, _own=1), {"a": 1, "b": "x" * 1000}),
        (Thing(**{f"field_{n}": n for n in range(100)}), {f"field_{n}": n for n in range(100)}),
        (Thing(many=[1, [2]], by={3: "x"}), {"many": [1, [2]], "by": {3: "x"}}),
        (Thing(inner=[Thing(a=1), {"k": Thing(b=2)}]), {"inner": [{"a": 1}, {"k": {"b": 2}}]}),
        (Thing(odd="\ud800", huge=1 << 80), {"odd": "\ud800", "huge": 1 << 80}),
        (Thing(known=Known(Thing(a=1))), {"known": {"inner": {"a": 1}}}),
        (Slotted(1), {"x": 1}),
        (Both([Slotted(1)]), {"x": [{"x": 1}], "y": 2}),
        (types.SimpleNamespace(a=1, b=[2]), {"a": 1, "b": [2]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_keeps_all_its_public_fields_and_none_of_its_code_runs(
    value: Any, expected: Any, limits: dict[str, int]
) -> None:
    assert seen({"value": value}, **limits) == {"value": expected}


def test_values_inside_an_object_are_converted_as_anywhere() -> None:
    found = seen(Thing(ids=np.arange(3), nested=[{"of": np.float32(0.5)}]))
    assert (type(found["ids"]), found["ids"].tolist(), found["nested"]) == (Array, [0, 1, 2], [{"of": 0.5}])


@WAYS
def test_an_object_without_public_fields_is_told_by_its_type(limits: dict[str, int]) -> None:
    assert seen([Thing(_own=1), object()], **limits) == [
        Opaque(f"{Thing.__module__}.Thing", {}),
        Opaque("builtins.object", {}),
    ]


@WAYS
def test_an_object_that_refers_to_itself_says_so(limits: dict[str, int]) -> None:
    thing = Thing(name="a")
    thing.inner = [thing]  # type: ignore[attr-defined]
    found = seen(thing, **limits)
    assert (found["name"], found["inner"][0].reason) == ("a", "refers to itself")


@WAYS
def test_the_graph_of_a_program_is_not_followed(limits: dict[str, int]) -> None:
    deep = Thing(level=1, next=Thing(level=2, next=Thing(level=3, next=Thing(level=4, more=[1]))))
    last = seen(deep, **limits)["next"]["next"]["next"]
    assert last == Opaque(f"{Thing.__module__}.Thing", {"level": 4}, "inside too many other objects")


@WAYS
def test_of_thousands_of_objects_the_first_thousand_are_kept_and_the_others_told_and_counted(
    limits: dict[str, int],
) -> None:
    snapshotter = Snapshotter(**limits)
    found = decode_value(snapshotter.take([Thing(n=n) for n in range(1500)]))
    assert [each["n"] for each in found[:1000]] == list(range(1000))
    assert {each.reason for each in found[1000:]} == {"one of too many objects"}
    assert snapshotter.cuts >= 500


def test_an_object_with_a_dataset_in_it_does_not_fill_the_journal() -> None:
    snapshotter = Snapshotter()
    raw = snapshotter.take({"data": Thing(rows=[{"q": "x" * 100}] * 100_000, name="d"), "prompt": "hello"})
    found = decode_value(raw)
    assert len(raw) < 3 << 20
    assert (found["prompt"], found["data"]["name"], type(found["data"]["rows"])) == ("hello", "d", Cut)
    assert snapshotter.cuts


def test_credentials_of_a_client_are_left_out_before_anything_is_written() -> None:
    raw = Snapshotter().take({"client": Thing(api_key="sk-abc123", timeout=5, eos_token="</s>", password="hunter2")})
    found = decode_value(raw)["client"]
    assert b"sk-abc123" not in raw
    assert b"hunter2" not in raw
    assert (found["timeout"], found["eos_token"]) == (5, "</s>")
    assert found["api_key"] == Opaque("builtins.str", {}, "left out: a credential, by its name")


def test_a_logger_does_not_bring_all_others() -> None:
    assert seen(Thing(log=logging.getLogger("some.where"), a=1))["log"].type == "logging.Logger"
