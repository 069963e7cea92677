"""Every server has its own words for a response that was too long."""

from __future__ import annotations

from typing import Any

import pytest

import rolltrace

from .conftest import Find, generate


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"text": "so", "finish_reason": "length"}, "length"),  # vLLM
        ({"outputs": [{"text": "so", "token_ids": [1], "finish_reason": "length"}]}, "length"),
        ({"text": "so", "meta_info": {"finish_reason": {"type": "length", "length": 8}}}, "length"),  # SGLang
        ({"text": "so", "finish_reason": {"type": "length"}}, "length"),
        ({"choices": [{"message": {"content": "so"}, "finish_reason": "length"}]}, "length"),  # OpenAI
        ({"choices": [{"text": "a", "finish_reason": "stop"}, {"text": "b", "finish_reason": "length"}]}, "length"),
        (
            {"output_text": "so", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens",
        ),
        ({"sequences": [{"tokens": [1, 2], "logprobs": [-1, -1], "stop_reason": "length"}]}, "length"),  # tinker
        ({"content": [{"type": "text", "text": "so"}], "stop_reason": "max_tokens"}, "max_tokens"),  # Anthropic
        ({"text": "so", "finish_reason": "MAX_TOKENS"}, "MAX_TOKENS"),  # Gemini
    ],
)
def test_what_servers_say_is_understood(find: Find, output: Any, reason: str) -> None:
    (found,) = find(lambda: generate(output=output))
    assert (found["flag"], found["detail"]["finish_reason"]) == ("cut_by_length", reason)


def test_the_number_of_tokens_is_in_the_detail(find: Find) -> None:
    (found,) = find(lambda: generate([1], output={"token_ids": [1, 2, 3], "finish_reason": "length"}))
    assert found["detail"] == {"finish_reason": "length", "response_tokens": 3}


@pytest.mark.parametrize("given", [{"sampling_params": {"max_tokens": 3}}, {"max_new_tokens": 3}])
def test_as_many_tokens_as_were_allowed_tell_it_where_the_reason_does_not(find: Find, given: Any) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def verl_generate(
        prompt_ids: list[int], sampling_params: dict[str, int] | None = None, max_new_tokens: int = 0
    ) -> dict[str, object]:
        return {"token_ids": [4, 5, 6], "stop_reason": "completed"}

    (found,) = find(lambda: verl_generate([1], **given))
    assert (found["flag"], found["detail"]) == ("cut_by_length", {"response_tokens": 3, "max_tokens": 3})


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({}, {"text": "so", "finish_reason": "stop"}),
        ({}, {"text": "length", "finish_reason": None}),
        ({}, {"text": "so", "meta_info": {"finish_reason": {"type": "stop", "matched": 2}}}),
        ({}, {"choices": [{"message": {"content": "so"}, "finish_reason": "tool_calls"}]}),
        ({"max_tokens": 4}, {"token_ids": [1, 2, 3], "stop_reason": "completed"}),
        ({"max_tokens": 3}, {"token_ids": [1, 2, 3], "finish_reason": "stop"}),
        ({"max_tokens": 2}, {"prompt_ids": [1], "response_ids": [1, 2, 3, 4]}),  # an agent loop of several calls
        ({"max_tokens": True}, {"token_ids": [1]}),
        ({}, "length"),
    ],
)
def test_other_endings_are_fine(find: Find, given: dict[str, Any], output: Any) -> None:
    @rolltrace.rollout_trace_op(kind="llm", inputs=["-output"])
    def call(output: Any, sampling_params: dict[str, Any]) -> Any:
        return output

    assert find(lambda: call(output, given)) == []
