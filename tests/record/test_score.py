"""What may be said in a score, and about whom."""

from __future__ import annotations

import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rolltrace.errors import ConfigError
from rolltrace.record import Coordinates, score_body, target_of


class Fate(str, enum.Enum):
    TRAINED = "trained"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1, 1),
        (0.5, 0.5),
        (True, True),
        (None, None),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (np.array([2.5]), 2.5),
        (np.longdouble(0.5), 0.5),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
        (-math.inf, -math.inf),
    ],
)
def test_a_number_of_any_kind_is_a_plain_one(given: Any, kept: Any) -> None:
    found = score_body(given)["value"]
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("given", "kept"), [("filtered", "filtered"), (Fate.TRAINED, "trained"), ("\ud800", "\\ud800")]
)
def test_text_is_a_label(given: Any, kept: str) -> None:
    found = score_body(given, name="fate")["value"]
    assert (found, type(found)) == (kept, str)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("given", [[1], {"a": 1}, np.array([1.0, 2.0]), object(), b"x", Unprintable()])
def test_a_value_that_is_neither_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="the score 'fate' must be a number, text or None, not"):
        score_body(given, name="fate")
    with pytest.raises(ConfigError, match="the score 'reward' must be a number or None, not"):
        score_body(given)


@pytest.mark.parametrize("name", ["reward", "advantage"])
@pytest.mark.parametrize("given", ["0.9", "good"])
def test_a_reward_or_an_advantage_is_no_text(given: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"the score '{name}' must be a number, not the text '{given}'; write float"):
        score_body(given, name=name)


def test_scalars_in_terms_are_numbers_and_the_rest_is_kept_as_it_is() -> None:
    body = score_body(1.0, {"format": np.float64(0.5), 3: "x", "list": [1]}, "because", name="judge")
    assert body == {"value": 1.0, "terms": {"format": 0.5, "3": "x", "list": [1]}, "reason": "because"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "a score needs a name such as 'reward', not ''"),
        ({"name": 3}, "a score needs a name such as 'reward', not 3"),
        ({"terms": [1]}, r"the terms of 'reward' must be a dict such as {'format': 0.5}, not \[1\]"),
    ],
)
def test_a_wrong_name_or_wrong_terms_are_explained(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        score_body(1.0, **arguments)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((3, 7, 0), Coordinates(3, 7, 0)),
        ((3, "uuid", None), Coordinates(3, "uuid", None)),
        ((None, 7, 1, True), Coordinates(None, 7, 1, True)),
        ((np.int64(3), np.int32(7), "1", np.bool_(True)), Coordinates(3, 7, 1, True)),
        (Coordinates(1, 2, 3, True), Coordinates(1, 2, 3, True)),
    ],
)
def test_a_tuple_is_a_place_in_the_run(given: tuple[Any, ...], expected: Coordinates) -> None:
    assert target_of(given) == (b"", expected)


def test_an_id_is_32_hexadecimal_digits() -> None:
    assert target_of("ABcd" * 8) == (bytes.fromhex("abcd" * 8), Coordinates())


@pytest.mark.parametrize(
    "given",
    [None, 3, "", "abc", "zz" * 16, b"a" * 16, (), (1, 2), (1, 2, 3, False, 5), (None,) * 3, ("x", 1, 2), [1, 2, 3]],
)
def test_any_other_target_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"\(step, sample_index, rollout_n\) or .*validate\); not"):
        target_of(given)
