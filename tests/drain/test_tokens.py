"""Token columns and scalars, found under the names that frameworks use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rolltrace.drain.tokens import take_columns
from rolltrace.record import TOKEN_NAMES, Snapshotter, decode_value
from tests.replies import (
    CHAT_USAGE,
    RESPONSE,
    SGLANG,
    SGLANG_STREAMS,
    TGI,
    FlatLogprobs,
    RequestOutput,
    anthropic,
    chat,
    chat_chunks,
    completion,
    langchain,
    response,
    sglang_events,
    vllm,
)


def found(inputs: Any, outputs: Any) -> Any:
    """What is found in values as they come out of a journal."""
    take = Snapshotter().take
    return take_columns(decode_value(take(inputs)), decode_value(take(outputs))).get("policy_version")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({}, {"policy_version": 7}),
        ({"policy_version": 7}, "text"),
        ({}, {"weight_version": "7"}),
        ({}, {"outputs": [{"model_version": 7}]}),
        ({}, {"extra_fields": {"policy_version": 7}}),
        ({}, {"metrics": {"param_version": 7.0}}),
        ({}, {"choices": [{"meta_info": {"weight_version": "7"}}]}),
        ({"extra_fields": {"policy_version": 7}}, {"extra_fields": {"other": 1}}),
        ({"policy_version": 6}, {"policy_version": np.int64(7)}),
        ({}, {"policy_version": np.array(7)}),
    ],
)
def test_the_policy_version_is_found(inputs: Any, outputs: Any) -> None:
    assert found(inputs, outputs) == 7


@pytest.mark.parametrize("value", [True, "default", 1.5, None, [7], np.array([7, 8]), 1 << 80, float("nan")])
def test_what_is_no_whole_number_is_no_policy_version(value: Any) -> None:
    assert found({}, {"policy_version": value}) is None


def columns(outputs: Any, inputs: Any = None) -> dict[str, Any]:
    take = Snapshotter().take
    taken = take_columns(decode_value(take(inputs or {})), decode_value(take(outputs)))
    return {name: value.to_pylist() if hasattr(value, "to_pylist") else value for name, value in taken.items()}


def flat_vllm() -> RequestOutput:
    output = vllm()
    output.outputs[0].logprobs = FlatLogprobs(
        [0, 2], [2, 3], [9, 5, 6], [-0.25, -0.5, -1.0], [1, 2, 1], ["n", "y", "es"]
    )
    return output


IDS = {"tokens": [1, 2, 5, 6], "prompt_tokens": 2, "response_tokens": 2}
STOPPED = {**IDS, "logprobs": [-0.5, -1.0], "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (vllm(), {**STOPPED, "cached_tokens": 1}),
        ([vllm()], {**STOPPED, "cached_tokens": 1}),
        (flat_vllm(), {**STOPPED, "cached_tokens": 1}),
        (SGLANG, {**STOPPED, "cached_tokens": 1}),
        ({name: value for name, value in SGLANG.items() if name != "output_ids"}, {**STOPPED, "cached_tokens": 1}),
        (TGI, STOPPED),
        ([TGI], STOPPED),
    ],
    ids=["vllm", "vllm list", "vllm flat", "sglang", "sglang without ids", "tgi", "tgi list"],
)
def test_token_ids_and_the_logprobs_of_those_taken_are_found_in_the_results_of_engines(
    outputs: Any, expected: dict[str, Any]
) -> None:
    assert columns(outputs) == expected


@pytest.mark.parametrize("outputs", [chat(), completion()], ids=["chat", "completion"])
def test_without_ids_the_server_says_how_many_tokens_there_are(outputs: Any) -> None:
    assert columns(outputs) == {
        "prompt_tokens": 10, "response_tokens": 5, "cached_tokens": 4, "reasoning_tokens": 2,
        "logprobs": [-0.5, -1.0], "finish_reason": "stop",
    }  # fmt: skip


def test_token_ids_count_more_than_what_a_server_says() -> None:
    found = columns({"token_ids": [5, 6], "usage": CHAT_USAGE})
    assert (found["tokens"], found["response_tokens"], found.get("prompt_tokens")) == ([5, 6], 2, None)


def test_a_server_that_names_tokens_by_their_ids_gives_ids() -> None:
    content = [{"token": "token_id:5", "logprob": -0.5}, {"token": "token_id:6", "logprob": -1.0}]
    found = columns({"choices": [{"text": "yes", "logprobs": {"content": content}}]})
    assert (found["tokens"], found["logprobs"]) == ([5, 6], [-0.5, -1.0])


def test_a_stream_has_the_tokens_of_all_its_pieces() -> None:
    items = [{"text": "y", "output_ids": [5]}, {"text": "es", "output_ids": [6]}]
    assert columns({"items": items, "count": 2, "end": "exhausted"})["tokens"] == [5, 6]


@pytest.mark.parametrize("new", SGLANG_STREAMS)
@pytest.mark.parametrize("without", ["nothing", "text", "output_ids"])
def test_a_stream_of_sglang_has_the_tokens_and_logprobs_of_all_its_pieces(new: tuple[str, ...], without: str) -> None:
    items = [{name: value for name, value in event.items() if name != without} for event in sglang_events(*new)]
    assert columns({"items": items, "count": 2, "end": "exhausted"}) == {**STOPPED, "cached_tokens": 1}


def test_a_stream_of_completions_has_the_prompt_that_stands_in_its_first_choice() -> None:
    items = [
        {"object": "text_completion", "choices": [{"text": "y", "token_ids": [5], "prompt_token_ids": [1, 2]}]},
        {"object": "text_completion", "choices": [{"text": "es", "token_ids": [6], "prompt_token_ids": None}]},
    ]
    assert columns({"items": items, "count": 2, "end": "exhausted"})["tokens"] == [1, 2, 5, 6]


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (anthropic(), "tool_use"),
        (langchain(), "tool_calls"),
        ({"messages": [langchain()]}, "tool_calls"),
        (response(), "completed"),
        (
            {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens",
        ),
        (chat_chunks(), "tool_calls"),
        ({"finish_reason": None, "stop_reason": "end_turn"}, "end_turn"),
    ],
)
def test_the_reason_for_which_a_model_stopped_is_found(outputs: Any, reason: str) -> None:
    assert columns(outputs)["finish_reason"] == reason


ALL_NAMES = [(column, name) for column, names in TOKEN_NAMES.items() for name in names]
VALUES: dict[str, Any] = {
    "prompt_ids": [5, 6], "response_ids": [5, 6], "logprobs": [-0.5, -0.25], "response_mask": [1, 0],
}  # fmt: skip


@pytest.mark.parametrize(("column", "name"), ALL_NAMES)
@pytest.mark.parametrize("inside", [False, True])
def test_every_name_is_read_from_a_result_and_from_the_one_completion_in_it(
    column: str, name: str, inside: bool
) -> None:
    beside = {"response_mask": [1, 1]} if column != "response_mask" else {"response_ids": [5, 6]}
    result = {name: VALUES[column], **beside}
    values = decode_value(Snapshotter().take({"choices": [result]} if inside else result))
    columns = take_columns({}, values)
    kept = {"prompt_ids": "tokens", "response_ids": "tokens"}.get(column, column)
    assert columns[kept].to_pylist() == VALUES[column]
    assert (values["choices"][0] if inside else values)[name] == {"$column": column}


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({}, {"ids": [3, 5], "scores": [0.5, 0.25]}),  # of documents
        ({}, {"mask": [1, 0], "area": 3}),
        ({"ids": [1], "mask": [1]}, {"text": "x"}),
    ],
)
def test_bare_names_alone_are_not_read(inputs: Any, outputs: Any) -> None:
    assert take_columns(inputs, outputs) == {}


def test_a_name_whose_value_is_no_list_does_not_hide_another() -> None:
    columns = take_columns({}, {"output_tokens": 2, "response_tokens": 2, "ids": [5, 6], "logps": [-0.5, -0.25]})
    assert columns["tokens"].to_pylist() == [5, 6]


def test_token_fields_of_the_message_of_a_choice_are_read() -> None:
    message = {
        "content": "x",
        "prompt_token_ids": [1],
        "generation_token_ids": [5, 6],
        "generation_log_probs": [-1, -2],
    }
    columns = take_columns({}, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert columns["tokens"].to_pylist() == [1, 5, 6]
    assert columns["logprobs"].to_pylist() == [-1, -2]
