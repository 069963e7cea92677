"""The careful way: cycles, depth, limits, and faults that must stay where they happened."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from rolltrace.record import Cut, Marker, Opaque, Snapshotter, decode_value


def seen(value: Any, **limits: Any) -> Any:
    return decode_value(Snapshotter(**limits).take(value))


def itself(value: object) -> Opaque:
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}", {}, "refers to itself")


@dataclasses.dataclass
class Node:
    name: str
    parent: Any = None
    children: list[Node] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    name: str
    other: Any = None


def test_a_list_in_itself_ends_in_a_marker() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert seen(value) == [1, itself(value)]


def test_a_dict_in_itself_ends_in_a_marker() -> None:
    value: dict[str, Any] = {"a": 1}
    value["me"] = value
    assert seen(value) == {"a": 1, "me": itself(value)}


def test_a_dataclass_that_refers_to_itself_keeps_its_other_fields() -> None:
    node = Node("a")
    node.parent = node
    assert seen([node]) == [{"name": "a", "parent": itself(node), "children": []}]


def test_two_models_that_refer_to_each_other_keep_their_other_fields() -> None:
    a, b = Model(name="a"), Model(name="b")
    a.other, b.other = b, a
    assert seen(a) == {"name": "a", "other": {"name": "b", "other": itself(a)}}


def test_a_value_that_is_merely_shared_is_kept_each_time() -> None:
    shared = [1 << 70]
    assert seen([shared, shared]) == [shared, shared]


def test_a_tree_of_2000_nodes_with_parent_pointers_keeps_every_node() -> None:
    nodes = [Node("0")]
    for number in range(1, 2000):
        parent = nodes[(number - 1) // 4]
        nodes.append(Node(str(number), parent))
        parent.children.append(nodes[-1])
    names, todo = set(), [seen(nodes[0])]
    while todo:
        node = todo.pop()
        names.add(node["name"])
        todo += node["children"]
    assert len(names) == 2000


def test_a_graph_where_every_node_knows_every_other_is_given_up_early() -> None:
    nodes = [Node(str(number)) for number in range(60)]
    for node in nodes:
        node.children = list(nodes)
    snapshotter = Snapshotter()
    decode_value(snapshotter.take(nodes))
    assert snapshotter.cuts


def deep_list(levels: int) -> list[Any]:
    value: list[Any] = ["end"]
    for _ in range(levels):
        value = [value]
    return value


def depth_of(value: Any) -> int:
    depth = 0
    while type(value) is list and value:
        depth, value = depth + 1, value[-1]
    return depth


def test_nesting_of_100_levels_is_kept_whole() -> None:
    assert depth_of(seen(deep_list(100))) == 101


def test_nesting_deeper_than_the_stack_is_cut_and_the_rest_kept() -> None:
    found = seen({"before": 1, "deep": deep_list(50_000), "after": 2})
    assert (found["before"], found["after"]) == (1, 2)
    assert 100 < depth_of(found["deep"]) <= 128


def at_stack_depth(frames: int, call: Callable[[], Any]) -> Any:
    return at_stack_depth(frames - 1, call) if frames else call()


@pytest.mark.parametrize("frames", [500, 700, 800])
def test_a_caller_deep_in_its_own_stack_still_gets_all_but_the_depth(frames: int) -> None:
    value = {"before": 1, "deep": deep_list(5_000), "after": 2}
    found = decode_value(at_stack_depth(frames, lambda: Snapshotter().take(value)))
    assert (found["before"], found["after"]) == (1, 2)
    assert depth_of(found["deep"]) > 5


def test_max_items_keeps_the_first_ones_and_says_how_many_there_were() -> None:
    assert seen(list("abcdef"), max_items=2) == Cut("items", 6, ["a", "b"])


def test_max_items_holds_for_maps_too() -> None:
    assert seen({"a": 1, "b": 2, "c": 3}, max_items=2) == Cut("items", 3, {"a": 1, "b": 2})


def test_max_depth_cuts_what_is_below_it() -> None:
    assert seen({"a": {"b": {"c": "x"}}, "n": 1}, max_depth=2) == {"a": {"b": Cut("depth", 1, None)}, "n": 1}


def test_many_nested_cuts_can_be_read() -> None:
    value: list[Any] = ["end", "more"]
    for _ in range(190):
        value = [value, "more"]
    assert isinstance(seen(value, max_items=1), Cut)


def test_max_bytes_counts_bytes_not_characters() -> None:
    assert len(Snapshotter(max_bytes=1000).take("漢" * 900)) <= 1000


@pytest.mark.parametrize("letter", ["a", "é", "漢", "😀", "\ud800"])
def test_text_is_cut_between_characters(letter: str) -> None:
    for limit in range(60, 70):
        found = seen(letter * 500, max_bytes=limit)
        assert (found.limit, found.full_length, set(found.kept)) == ("bytes", 500, {letter})


def test_bytes_over_the_limit_keep_their_beginning() -> None:
    found = seen(bytes(range(256)) * 10, max_bytes=100)
    assert (found.full_length, found.kept) == (2560, bytes(range(len(found.kept))))


def test_an_integer_over_the_limit_is_cut() -> None:
    assert isinstance(seen(1 << 100_000, max_bytes=1000), Cut)


def test_small_fields_survive_beside_a_large_one() -> None:
    found = seen({"prompt": "x" * 10_000, "step": 3, "reward": 0.5}, max_bytes=500)
    assert (type(found["prompt"]), found["step"], found["reward"]) == (Cut, 3, 0.5)


def test_a_map_of_very_many_small_items_stays_within_the_limit() -> None:
    raw = Snapshotter(max_bytes=5000).take({f"key {number}": "some text" * 5 for number in range(50_000)})
    assert len(raw) <= 5000
    assert decode_value(raw).full_length == 50_000


def test_large_keys_stay_within_the_limit() -> None:
    assert len(Snapshotter(max_bytes=1000).take({"k" * 900 + str(number): number for number in range(100)})) <= 1000


class Raises:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ValueError


class Bag(dict[str, Any]):
    def keys(self) -> Any:
        raise ValueError

    __iter__ = items = keys  # type: ignore[assignment]


class Hidden:
    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class Unhappy(collections.UserDict[str, int]):
    def __iter__(self) -> Any:
        raise ValueError

    keys = __iter__


@dataclasses.dataclass
class Lazy:
    """Its field is computed when it is read, and that fails."""

    number: int = 1

    def __getattribute__(self, name: str) -> Any:
        return 1 / 0 if name == "number" else object.__getattribute__(self, name)


@pytest.mark.parametrize("limits", [{}, {"max_items": 100}], ids=["fast", "walk"])
@pytest.mark.parametrize("kind", [Raises, Hidden, Unhappy])
def test_a_value_that_raises_costs_only_itself(kind: type, limits: dict[str, int]) -> None:
    found = seen(["before", kind(), "after"], **limits)
    assert (found[0], isinstance(found[1], Marker), found[2]) == ("before", True, "after")


def test_a_field_that_raises_costs_only_its_object() -> None:
    found = seen(["before", Lazy(), "after"], max_items=100)
    assert (found[0], isinstance(found[1], Opaque), found[2]) == ("before", True, "after")


@pytest.mark.parametrize("limits", [{}, {"max_items": 100}], ids=["fast", "walk"])
def test_a_dict_is_read_without_its_own_methods(limits: dict[str, int]) -> None:
    assert seen([Bag(a=1)], **limits) == [{"a": 1}]


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, "x")


class Level(enum.IntEnum):
    HIGH = 3


@attrs.define
class Attrs:
    shown: int
    _hidden: int = 2


class Struct(msgspec.Struct):
    a: int
    b: str = "x"


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    "value",
    [
        Color.RED, Color.PAIR, Level.HIGH, Attrs(1), Struct(1), Node("a"), Model(name="a"), uuid.UUID(int=5),
        decimal.Decimal("1.50"), datetime.timedelta(hours=1), datetime.time(1, 2), datetime.date(2026, 1, 2),
        datetime.datetime.fromisoformat("2026-01-02"), datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
        memoryview(b"ab"), bytearray(b"ab"), {3, 4}, frozenset({3}), Node, Color, 1 << 80, b"x", (1, "x"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_the_walk_and_the_fast_path_agree(value: Any) -> None:
    assert seen([value], max_items=1000) == seen([value])


def test_named_tuples_keep_their_names_anywhere_in_a_walk() -> None:
    assert seen({"a": {"b": {"c": Pair(1, 2)}}}, max_items=100) == {"a": {"b": {"c": {"left": 1, "right": 2}}}}
