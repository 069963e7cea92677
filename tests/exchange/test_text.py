"""The JSON of exports: strict, and the same value when it is read again."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rolltrace.exchange.text import json_text, parse


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3], [1.5, -2.0], [1, math.nan], [math.nan, 1], [math.inf, -math.inf], [1e308, 1e308], [1, 1 << 80],
        [1 << 80, -(1 << 80)], [1, None, "x"], [True, 1], [], {}, {"a": [0.1, {"b": math.nan}]}, [[1, math.nan]],
        "\x7f \x9b \u202e \ud7ff 北京", {"\x1b": "\x1b"}, (1 << 64) - 1, -(1 << 63), 1 << 64, {"$float": "nan!"},
        {"$int": "no"}, {"$float": ["x"]},
    ],
)  # fmt: skip
def test_a_value_survives(value: Any) -> None:
    text = json_text(value)
    json.loads(text, parse_constant=refuse)
    assert text.isprintable()
    assert repr(parse(text)) == repr(value)


def test_lone_surrogates_do_not_reach_a_file() -> None:
    assert parse(json_text({"\ud800": ["\udfff"]})) == {"\\ud800": ["\\udfff"]}
