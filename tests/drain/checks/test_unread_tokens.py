"""Lists that look like tokens, logprobs or masks, under names that are not read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rolltrace

from .conftest import Find, generate, tool

IDS, LOGPS, MASK = [5, 6, 7], [-0.1, -math.inf, -2.0], [1, 0, 1]


@pytest.mark.parametrize(
    ("field", "values", "column"),
    [
        ("tok_ids", IDS, "response_ids"),
        ("my_tokens", IDS, "response_ids"),
        ("sampled_ids", np.array(IDS), "response_ids"),
        ("ids", IDS, "response_ids"),  # which is read beside another name of tokens only
        ("logprob", LOGPS, "logprobs"),
        ("token_logp", np.array(LOGPS), "logprobs"),
        ("lps", LOGPS, "logprobs"),
        ("train_mask", MASK, "response_mask"),
        ("mask_of_response", [True, False, True], "response_mask"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_near_miss_is_flagged_with_its_name(find: Find, field: str, values: Any, column: str, inside: bool) -> None:
    output = {"text": "a", "extra_fields": {field: values}} if inside else {"text": "a", field: values}
    (found,) = find(lambda: generate(output=output))
    assert (found["flag"], found["detail"]) == ("unread_tokens", {"field": field, "column": column, "items": 3})


def test_ids_of_the_prompt_are_looked_for_in_the_arguments_too(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def call(prompt_toks: list[int]) -> dict[str, Any]:
        return {"text": "a", "token_ids": [1]}

    (found,) = find(lambda: call(IDS))
    assert found["detail"] == {"field": "prompt_toks", "column": "prompt_ids", "items": 3}


def test_each_column_is_named(find: Find) -> None:
    found = find(lambda: generate(output={"text": "a", "toks": IDS, "lp": LOGPS, "train_mask": MASK}))
    assert {each["detail"]["field"] for each in found} == {"toks", "lp", "train_mask"}


@pytest.mark.parametrize(
    "output",
    [
        {"text": "a", "ids": IDS, "logps": LOGPS, "mask": MASK},
        {"text": "a", "token_ids": IDS, "log_probs": LOGPS, "my_logps": LOGPS, "my_tokens": IDS},
        {"text": "a", "doc_ids": IDS, "scores": [-1.0, -2.0], "user_ids": IDS},
        {"text": "a", "ref_logps": LOGPS, "old_log_prob": LOGPS, "attention_mask": MASK, "prompt_mask": MASK},
        {"text": "a", "toks": ["a", "b"], "logp": [0.5, 0.2], "my_mask": [2, 3], "n_tokens": 7, "tok_ids": []},
        {"text": "a", "tok_ids": [[1], [2]]},
    ],
)
def test_what_was_read_or_means_something_else_is_not_flagged(find: Find, output: dict[str, Any]) -> None:
    assert find(lambda: generate([1], output=output)) == []


def test_only_model_calls_are_looked_at(find: Find) -> None:
    assert find(lambda: tool({"tok_ids": IDS, "logp": LOGPS})) == []
