"""Messages are read back from the text of the usual chat templates."""

from __future__ import annotations

import pytest

from rolltrace.messages import Message, ToolCall, read_prompt_text, read_response_text
from rolltrace.messages.template import read_added_text, read_template, without_end

TEXTS = {
    "ChatML": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n2+2?\n<|im_end|>\n<|im_start|>assistant\n",
    "Qwen 3": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n2+2?\n<|im_end|>\n<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n",
    "Llama 3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n2+2?\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "Llama 4": "<|begin_of_text|><|header_start|>system<|header_end|>\n\nBe kind.<|eot|>"
    "<|header_start|>user<|header_end|>\n\n2+2?\n<|eot|><|header_start|>assistant<|header_end|>\n\n",
    "Gemma": "<bos><start_of_turn>system\nBe kind.<end_of_turn>\n<start_of_turn>user\n2+2?\n<end_of_turn>\n"
    "<start_of_turn>model\n",
    "gpt-oss": "<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>2+2?\n<|end|><|start|>assistant",
    "GLM": "[gMASK]<sop><|system|>\nBe kind.<|user|>\n2+2?\n<|assistant|>\n",
    "Phi": "<|system|>Be kind.<|end|><|user|>2+2?\n<|end|><|assistant|>",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_prompt_is_the_messages_it_was_made_of(text: str) -> None:
    assert read_prompt_text(text).messages == [Message("system", "Be kind."), Message("user", "2+2?\n")]


def test_deepseek_has_no_mark_for_the_system() -> None:
    text = "<｜begin▁of▁sentence｜>Be kind.<｜User｜>2+2?<｜Assistant｜>4<｜end▁of▁sentence｜>"
    text += "<｜User｜>why?<｜Assistant｜>"
    assert [(said.role, said.text) for said in read_prompt_text(text).messages] == [
        ("system", "Be kind."), ("user", "2+2?"), ("assistant", "4"), ("user", "why?")
    ]  # fmt: skip


def test_an_answer_that_the_model_goes_on_with_is_kept() -> None:
    assert read_prompt_text("<|im_start|>assistant\nSure, ").messages == [Message("assistant", "Sure, ")]


def test_reasoning_that_the_template_opened_belongs_to_the_answer() -> None:
    read = read_prompt_text("<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n<think>\n")
    assert [said.role for said in read.messages] == ["user"]
    assert read_response_text("hm\n</think>\n\n4<|im_end|>", read.prefill) == [Message("assistant", "4", "hm")]


def test_results_of_tools_between_tags_are_messages_of_tools() -> None:
    text = "<|im_start|>user\n<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response><|im_end|>\n"
    assert read_prompt_text(text).messages == [Message("tool", "4"), Message("tool", "5")]


def test_channels_of_gpt_oss_are_reasoning_calls_and_answers() -> None:
    text = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.add "
        '<|constrain|>json<|message|>{"a": 1}<|call|>'
    )
    assert read_response_text(text) == [Message("assistant", "", "hm", [ToolCall("add", '{"a": 1}')])]
    result = "<|start|>functions.add to=assistant<|channel|>commentary<|message|>3<|end|><|start|>assistant"
    assert read_added_text(result).messages == [Message("tool", "3", tool_name="add")]


def test_what_follows_a_reply_is_read_without_what_closes_it() -> None:
    text = "<|im_end|>\n<|im_start|>user\nhurry<|im_end|>\n<|im_start|>assistant\n"
    assert read_added_text(text).messages == [Message("user", "hurry")]
    assert read_added_text("<|im_end|>\n").messages == []
    assert read_added_text(" and?").messages == [Message("user", " and?")]


def test_a_response_with_the_turns_of_its_environment_is_several_messages() -> None:
    text = '<tool_call>{"name": "add", "arguments": {}}</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n4\n'
    text += "</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nfour<|im_end|>"
    assert read_response_text(text) == [
        Message("assistant", calls=[ToolCall("add", "{}")]),
        Message("tool", "4"),
        Message("assistant", "four", "hm"),
    ]


@pytest.mark.parametrize("text", ["", "2+2?", "<|endoftext|>", "if a <|b|> c"])
def test_text_of_no_template_is_one_message_of_the_user(text: str) -> None:
    assert read_template(text) is None
    assert read_prompt_text(text).messages == [Message("user", text)]


@pytest.mark.parametrize(
    ("wrote", "meant"),
    [
        ("4<|im_end|>", "4"),
        ("4<|im_end|>\n", "4"),
        ("4<|eot_id|>", "4"),
        ("4<end_of_turn>", "4"),
        ("4<｜end▁of▁sentence｜>", "4"),
        ("4", "4"),
        ("<|im_end|> is how I stop", "<|im_end|> is how I stop"),
    ],
)
def test_the_mark_by_which_a_model_stops_is_no_part_of_what_it_says(wrote: str, meant: str) -> None:
    assert without_end(wrote) == meant
