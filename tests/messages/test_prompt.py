"""What a model was given is found wherever it stands among its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompt_values import ChatPromptValue

from rolltrace.messages import Message, read_prompt
from tests.messages.test_message_list import seen

ASKED = {"role": "user", "content": "1+2?"}
USER = Message("user", "1+2?")


@pytest.mark.parametrize(
    "inputs",
    [
        {"messages": [HumanMessage("1+2?")]},
        {"state": {"messages": [{"type": "human", "content": "1+2?"}], "step": 1}},
        {"input": ChatPromptValue(messages=[HumanMessage("1+2?")])},
        {"history": [ASKED], "model": "m"},
        {"whatever": [["human", "1+2?"]], "tools": [{"type": "function", "function": {"name": "add"}}]},
        {"contents": [{"role": "user", "parts": [{"text": "1+2?"}]}]},
        {"contents": {"role": "user", "parts": [{"text": "1+2?"}]}},
        {"contents": "1+2?"},
        [ASKED],
        {"prompts": ["1+2?"]},
        {"inputs": "1+2?"},
        {"prompt": "<|im_start|>user\n1+2?<|im_end|>\n<|im_start|>assistant\n"},
        "1+2?",
    ],
)
def test_the_prompt_is_found_wherever_it_stands(inputs: Any) -> None:
    assert read_prompt(seen(inputs)) == [USER]


@pytest.mark.parametrize(
    "inputs",
    [
        {"system": [{"type": "text", "text": "Be brief."}], "messages": [ASKED]},
        {"instructions": "Be brief.", "input": "1+2?"},
        {"instructions": "Be brief.", "input": [ASKED]},
        {"config": {"system_instruction": "Be brief."}, "contents": "1+2?"},
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"role": "user", "parts": ["1+2?"]}]},
    ],
)
def test_the_system_prompt_that_stands_beside_the_messages_comes_first(inputs: Any) -> None:
    assert read_prompt(seen(inputs)) == [Message("system", "Be brief."), USER]


def test_the_prompt_that_vllm_repeats_is_taken_where_only_its_tokens_were_given() -> None:
    output = {"prompt": "1+2?", "prompt_token_ids": [1], "outputs": [{"text": "3", "token_ids": [2]}]}
    assert read_prompt({"prompt_ids": [1]}, [output]) == [USER]


@pytest.mark.parametrize("inputs", [None, 3, {}, {"messages": []}, {"messages": [1]}, {"prompt_ids": [1, 2]}, [1]])
def test_what_is_no_prompt(inputs: Any) -> None:
    assert read_prompt(seen(inputs)) is None
