"""The demo's own encoding gives what the `tokenizers` package gives with the same file."""

from __future__ import annotations

import pytest
import tokenizers

from rolltrace.demo.task import SYSTEM, problems
from rolltrace.demo.tokenizer import PATH, Tokenizer

TEXTS = [
    SYSTEM,
    "<|im_start|>user\nWhat is (17 + 25) * 3?<|im_end|>\n<|im_start|>assistant\n",
    "<call>17+25</call><|im_end|>",
    "<answer>126</answer> verified verified so the result is",
    "error: cannot read '<call>4*+</call>'; write <call>12+34</call>",
    *[problem.question for problem in problems(5, seed=3)],
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_encoded_as_by_the_library_and_decoded_again(text: str) -> None:
    ids = Tokenizer().encode(text)
    assert ids == tokenizers.Tokenizer.from_file(str(PATH)).encode(text).ids
    assert Tokenizer().decode(ids) == text
