"""What a model was given is found wherever it stands among its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompt_values import ChatPromptValue

from rolltrace.messages import EndedOp, Message, Transcript, read_prompt
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


def test_one_message_under_a_name_of_its_own_is_no_prompt() -> None:
    inputs = {"messages": None, "prompt_ids": [1], "reply": {"role": "assistant", "content": "yes"}}
    assert read_prompt(inputs) is None
    rows = (
        Transcript()
        .op_ended(EndedOp(op_id=1, kind="llm", inputs=inputs, outputs="yes", prompt_text="sure?", response_text="yes"))
        .rows
    )
    assert [(row.role, row.text) for row in rows] == [("user", "sure?"), ("assistant", "yes")]


@pytest.mark.parametrize("name", ["messages", "input", "contents"])
def test_messages_of_a_whole_request_are_found_turn_by_turn(name: str) -> None:
    transcript, history, texts = Transcript(), [ASKED], []
    for turn in range(3):
        ended = EndedOp(
            op_id=turn, kind="llm", inputs={"request": {name: history, "system": "Add."}}, outputs=f"{turn}"
        )
        added = transcript.op_ended(ended)
        texts += [row.text for row in added.rows]
        history = [*history, {"role": "assistant", "content": f"{turn}"}, {"role": "user", "content": f"and {turn}?"}]
    assert texts == ["Add.", "1+2?", "0", "and 0?", "1", "and 1?", "2"]
    assert added.saw == "0-5"
