"""Where token ids stand."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from rolltrace.record import Snapshotter, decode_value
from rolltrace.record.tokens import token_ids


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"prompt_ids": [1, 2]}, {"token_ids": [3]}, ([1, 2], [3])),
        ({"raw_prompt": "x"}, {"prompt_ids": [1], "response_ids": [2, 3], "reward": 1.0}, ([1], [2, 3])),
        ({"prompt_token_ids": [1]}, {"choices": [{"token_ids": [2]}]}, ([1], [2])),
        ({"prompt_ids": [1]}, None, ([1], None)),
        ({"response_ids": [4]}, ["text", []], (None, [4])),
        ({"prompt_ids": []}, {"token_ids": []}, ([], [])),
        ({"prompt_ids": [[1, 2]]}, {"token_ids": "abc"}, (None, None)),
        ({"prompt_ids": [1.5]}, {"choices": [{"token_ids": [1]}, {"token_ids": [2]}]}, (None, None)),
        ("text", 3, (None, None)),
    ],
)
def test_token_ids_are_found_under_the_names_of_frameworks(inputs: Any, outputs: Any, expected: Any) -> None:
    assert token_ids(inputs, outputs) == expected


def test_an_array_of_token_ids_is_found() -> None:
    recorded = decode_value(Snapshotter().take({"prompt_ids": array("q", [5, 6])}))
    assert token_ids(recorded, None).prompt == [5, 6]
