"""Messages are read back from the text of the usual chat templates."""

from __future__ import annotations

import pytest

from rolltrace.query.templates import messages_in, without_end

TEXTS = {
    "ChatML": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n2+2?\n<|im_end|>\n<|im_start|>assistant\n",
    "Llama 3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n2+2?\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "Llama 4": "<|begin_of_text|><|header_start|>system<|header_end|>\n\nBe kind.<|eot|>"
    "<|header_start|>user<|header_end|>\n\n2+2?\n<|eot|><|header_start|>assistant<|header_end|>\n\n",
    "Gemma": "<bos><start_of_turn>system\nBe kind.<end_of_turn>\n<start_of_turn>user\n2+2?\n<end_of_turn>\n"
    "<start_of_turn>model\n",
    "gpt-oss": "<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>2+2?\n<|end|>"
    "<|start|>assistant<|channel|>analysis<|message|>",
    "GLM": "[gMASK]<sop><|system|>\nBe kind.<|user|>\n2+2?\n<|assistant|>\n",
    "Phi": "<|system|>Be kind.<|end|><|user|>2+2?\n<|end|><|assistant|>",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_prompt_is_the_messages_it_was_made_of(text: str) -> None:
    assert messages_in(text) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "2+2?\n"}]


def test_deepseek_has_no_mark_for_the_system() -> None:
    text = "<｜begin▁of▁sentence｜>Be kind.<｜User｜>2+2?<｜Assistant｜>4<｜end▁of▁sentence｜>"
    text += "<｜User｜>why?<｜Assistant｜>"
    assert messages_in(text) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "why?"},
    ]


def test_an_answer_that_the_model_goes_on_with_is_kept() -> None:
    assert messages_in("<|im_start|>assistant\n<think>\n") == [{"role": "assistant", "content": "<think>\n"}]


@pytest.mark.parametrize("text", ["", "2+2?", "<|endoftext|>", "if a <|b|> c"])
def test_text_of_no_template_is_left_as_it_is(text: str) -> None:
    assert messages_in(text) is None


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
