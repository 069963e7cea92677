"""What stands in for tinker's service: a tokenizer made on the spot, and policies that say what a script says.

All of tinker-cookbook itself is real.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tinker_cookbook import renderers, tokenizer_utils
from tinker_cookbook.completers import MessageCompleter, TokenCompleter, TokensWithLogprobs
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

MODEL = "rolltrace/tiny"
END = "<|im_end|>"
_lock = threading.RLock()


class OneAtATime(PreTrainedTokenizerFast):
    """Each call sets a flag of the tokenizer in Rust, which two threads must not do at once."""

    def _encode_plus(self, *args: Any, **kwargs: Any) -> Any:
        with _lock:
            return super()._encode_plus(*args, **kwargs)

    def decode(self, *args: Any, **kwargs: Any) -> Any:
        with _lock:
            return super().decode(*args, **kwargs)


def make_tokenizer() -> OneAtATime:
    """A token for each byte, and the special tokens of Qwen."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={byte: number for number, byte in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = OneAtATime(
        tokenizer_object=backend,
        eos_token=END,
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    tokenizer.name_or_path = MODEL
    return tokenizer


TOKENIZER = make_tokenizer()
tokenizer_utils.register_tokenizer(MODEL, make_tokenizer)
RENDERER = renderers.get_renderer("qwen3_instruct", TOKENIZER, model_name=MODEL)


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


class Scripted(TokenCompleter):
    """Says one line after the other, the last one again and again: a text, `(text, stop reason)`, or an exception."""

    def __init__(self, *lines: Any) -> None:
        self._lines = lines
        self.calls = 0

    async def __call__(self, model_input: Any, stop: Any, *, max_tokens: int | None = None) -> TokensWithLogprobs:
        line = self._lines[min(self.calls, len(self._lines) - 1)]
        self.calls += 1
        await asyncio.sleep(0)
        if isinstance(line, BaseException):
            raise line
        text, why = line if isinstance(line, tuple) else (line, "stop")
        tokens = ids(text)
        return TokensWithLogprobs(tokens, [-0.25 - at / 1000 for at in range(len(tokens))], why)


class Says(MessageCompleter):
    """Another model than the policy, which always says the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def __call__(self, messages: Any) -> Any:
        return {"role": "assistant", "content": self._text}
