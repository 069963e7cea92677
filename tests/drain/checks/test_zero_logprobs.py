"""Logprobs that are all zero were never computed."""

from __future__ import annotations

import pytest

from .conftest import Find, turn


@pytest.mark.parametrize("logprobs", [[0.0] * 4, [0.0] * 300, [0, 0, 0, 0, 0], [-0.0, 0.0, 0.0, -0.0]])
def test_only_zeros_are_flagged(find: Find, logprobs: list[float]) -> None:
    (found,) = find(lambda: turn([1], list(range(len(logprobs))), logprobs=logprobs))
    assert (found["flag"], found["detail"]) == ("zero_logprobs", {"logprobs": len(logprobs)})


@pytest.mark.parametrize(
    "logprobs",
    [
        [0.0, 0.0, 0.0],
        [],
        [-0.5] * 5,
        [0.0, 0.0, -0.001, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, -1.0],
        [0.0, float("nan"), 0.0, 0.0, 0.0],
        [0.0, None, 0.0, 0.0, 0.0],
    ],
)
def test_a_few_zeros_or_any_other_value_are_fine(find: Find, logprobs: list[float]) -> None:
    assert find(lambda: turn([1], [2] * len(logprobs), logprobs=logprobs), limits={"checks": "zero_logprobs"}) == []
