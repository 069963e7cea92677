"""Response tokens, logprobs and mask belong together one by one."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Find, generate, tool


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        (
            {"token_ids": [1, 2, 3], "logprobs": [-0.5, -0.5]},
            {"response_tokens": 3, "logprobs": 2},
        ),
        (
            {"response_ids": [1, 2], "response_logprobs": [-0.5, -0.5], "response_mask": [1]},
            {"response_tokens": 2, "logprobs": 2, "response_mask": 1},
        ),
        (
            {"logprobs": [-0.5], "response_mask": [1, 0]},
            {"logprobs": 1, "response_mask": 2},
        ),
        (
            {"choices": [{"token_ids": [1, 2], "logprobs": []}]},
            {"response_tokens": 2, "logprobs": 0},
        ),
    ],
)
def test_lengths_that_differ_are_told(find: Find, output: Any, detail: dict[str, int]) -> None:
    (found,) = find(lambda: generate([7], output=output))
    assert (found["flag"], found["detail"]) == ("length_mismatch", detail)


@pytest.mark.parametrize(
    "output",
    [
        {"token_ids": [1, 2, 3], "logprobs": [-0.5, -0.5, -0.5], "response_mask": [1, 1, 0]},
        {"token_ids": [1, 2, 3]},
        {"token_ids": [1, 2], "logprobs": None},
        {"logprobs": [-0.5, -0.5]},
        {"text": "no tokens at all"},
    ],
)
def test_lengths_that_agree_or_are_not_known_are_fine(find: Find, output: Any) -> None:
    assert find(lambda: generate([7], output=output)) == []


def test_every_op_is_looked_at(find: Find) -> None:
    (found,) = find(lambda: tool({"response_ids": [1, 2], "response_mask": [1]}))
    assert found["flag"] == "length_mismatch"
