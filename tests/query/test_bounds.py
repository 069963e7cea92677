"""Values that are cut for show can be read on where they were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolltrace.query import NotFoundError, bounded, branch_of, changes_between
from rolltrace.query.values import MAX_TOTAL


@pytest.mark.parametrize("value", [None, True, 3, -2.5, "text", [], {}, {"a": [1, {"b": None}]}, "中文 🎉"])
def test_a_small_value_stays_as_it_is(value: Any) -> None:
    assert bounded(value) == value


def test_numbers_that_javascript_cannot_hold_are_written_out() -> None:
    assert bounded([float("nan"), float("-inf"), 2**53 + 1, 2**53]) == [
        {"$float": "nan"},
        {"$float": "-inf"},
        {"$int": hex(2**53 + 1)},
        2**53,
    ]


def test_long_things_are_stubs_with_their_size() -> None:
    found = bounded({"text": "x" * 100_000, "list": list(range(1000))})
    assert found["text"]["$cut"]["size"] == 100_000
    assert found["list"]["$cut"] == {"type": "list", "size": 1000, "shown": list(range(100))}


@pytest.mark.parametrize(
    "value",
    [
        ["x" * 10_000] * 1000,
        {str(at): {"deep": ["y" * 500] * 50} for at in range(1000)},
        [[[["z"] * 90] * 90] * 90] * 90,
    ],
)  # fmt: skip
def test_whatever_comes_is_bounded(value: Any) -> None:
    assert len(json.dumps(bounded(value))) < 4 * MAX_TOTAL


def test_what_is_very_deep_ends() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    assert "$cut" in json.dumps(bounded(deep))


def test_a_branch_reads_on_where_a_stub_stands() -> None:
    value = {"a": [{"text": "0123456789" * 1000}]}
    assert branch_of(value, ["a", 0, "text"], offset=9_995) == "56789"
    assert branch_of({"n": list(range(1000))}, ["n"], offset=990) == list(range(990, 1000))


@pytest.mark.parametrize("path", [["b"], ["a", 1], ["a", "x"], ["a", 0, "b"], [0]])
def test_a_branch_that_is_not_there_is_an_error(path: list[Any]) -> None:
    with pytest.raises(NotFoundError, match="there is no value at"):
        branch_of({"a": [1]}, path)


def test_changes_are_named_by_their_place() -> None:
    before = {"x": 1, "board": [[0, 1], [0, 0]], "gone": "a", "nan": float("nan"), "same": {"k": 1}}
    after = {"x": 1.5, "board": [[0, 1], [2, 0], [9]], "new": True, "nan": float("nan"), "same": {"k": 1}}
    found = {change.path: (change.before, change.after) for change in changes_between(before, after)}
    assert found == {
        "x": (1, 1.5),
        "board[1][0]": (0, 2),
        "board[2]": (None, [9]),
        "gone": ("a", None),
        "new": (None, True),
    }


def test_there_are_no_more_changes_than_anybody_reads() -> None:
    assert len(changes_between([0] * 1000, [1] * 1000)) == 200
