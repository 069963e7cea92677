"""A tokenizer of bytes and a random model of one layer, made here: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

_MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"]


def make_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={symbol: number for number, symbol in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.add_tokens(_MARKS)
    # TRL knows how to read tool calls by the text of this template.
    tokenizer.chat_template = files("trl").joinpath("chat_templates/qwen3.jinja").read_text()
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast, script: Callable[[int, str], str] | None = None) -> Any:
    """With a script, what row i says after a text is `script(i, text)`: the loss and its gradients are real."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        max_position_embeddings=4096,
    )  # fmt: skip
    if script is None:
        return Qwen2ForCausalLM(config)

    class Scripted(Qwen2ForCausalLM):
        def generate(self, input_ids: Any = None, attention_mask: Any = None, **more: Any) -> Any:
            texts = [tokenizer.decode(row) for row in input_ids]
            said = [tokenizer.encode(script(at, text) + "<|im_end|>") for at, text in enumerate(texts)]
            longest = max(map(len, said))
            padded = [ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids in said]
            return torch.cat([input_ids, torch.tensor(padded)], 1)

    return Scripted(config)
