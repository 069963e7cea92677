from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltrace.backends.weave.fit import fit, json_bytes


def test_a_value_that_fits_is_given_back_as_it_is() -> None:
    value = {"messages": [{"role": "user", "content": "你好"}], "n": 1.5}
    assert fit(value, 1000) is value


def test_a_long_text_keeps_its_beginning_and_says_how_long_it_was() -> None:
    cut = fit("x" * 10_000, 1000)["$cut"]
    assert (cut["limit"], cut["full_length"]) == ("bytes", 10_000)
    assert 800 < len(cut["kept"]) < 1000


def test_text_that_is_escaped_in_json_counts_as_long_as_it_is_there() -> None:
    cut = fit("好" * 10_000, 1200)
    assert json_bytes(cut) <= 1200
    assert len(cut["$cut"]["kept"]) > 150


def test_a_long_list_keeps_its_first_items() -> None:
    cut = fit(list(range(10_000)), 1000)["$cut"]
    assert cut["full_length"] == 10_000
    assert cut["kept"] == list(range(len(cut["kept"])))
    assert len(cut["kept"]) > 150


def test_the_small_items_of_a_dict_stay_whole_and_the_large_ones_share_the_rest() -> None:
    made = fit({"a": "x" * 9000, "step": 3, "b": "y" * 9000, "query": "short"}, 4000)
    assert list(made) == ["a", "step", "b", "query"]
    assert (made["step"], made["query"]) == (3, "short")
    assert len(made["a"]["$cut"]["kept"]) == pytest.approx(len(made["b"]["$cut"]["kept"]), abs=20)
    assert 3000 < json_bytes(made) <= 4000


def test_a_dict_of_too_many_items_says_how_many_there_were() -> None:
    made = fit({f"key {number}": number for number in range(10_000)}, 2000)
    assert made["$cut"] == {"limit": "bytes", "full_length": 10_000, "kept": None}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=30) | st.dictionaries(st.text(), inside, max_size=30),
    max_leaves=80,
)


@settings(max_examples=60)
@given(_json, st.integers(300, 3000))
def test_whatever_it_is_it_fits(value: Any, most: int) -> None:
    made = fit(value, most)
    assert json_bytes(made) <= most
    assert json.loads(json.dumps(made)) == made
    if isinstance(value, dict):
        assert isinstance(made, dict)
