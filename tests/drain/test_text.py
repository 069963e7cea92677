"""Over many long turns, every token is decoded once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import rolltrace
from tests.draining import drain, rows

TURNS = 20
LONGEST_PROMPT = 30_000


class Agent:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(self, prompt_ids: list[int], reply: list[int]) -> dict[str, Any]:
        return {"token_ids": reply}

    @rolltrace.rollout_trace_op
    def parse(self, response_ids: list[int]) -> None: ...

    @rolltrace.rollout_trace_op
    def whole(self, prompt_ids: list[int], response_ids: list[int]) -> None: ...


def test_long_prompts_over_many_turns_of_several_trajectories_are_decoded_once(
    tmp_path: Path, byte_level: Tokenizer
) -> None:
    rng = random.Random(0)
    tokens = range(byte_level.get_vocab_size())
    agent = Agent(byte_level)
    contexts = [rng.choices(tokens, k=500) for _ in range(3)]
    replied = 0
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, token2text=True, limits={"segment_bytes": "256KiB"})
    for turn in range(1, TURNS + 1):
        for at, context in enumerate(contexts):
            with rolltrace.use_context(f"00-{at + 1:032x}-{0:016x}-01"):
                reply = rng.choices(tokens, k=200)
                agent.generate(context, reply)
                agent.parse(reply)
            replied += len(reply)
            observed = rng.choices(tokens, k=LONGEST_PROMPT * turn // TURNS - len(context) - len(reply))
            contexts[at] = [*context, *reply, *observed]
    for at, context in enumerate(contexts):
        with rolltrace.use_context(f"00-{at + 1:032x}-{0:016x}-01"):
            agent.whole(context[:500], context[500:])
    rolltrace.shutdown()
    drainer = drain(tmp_path)
    assert drainer.bytes > 1 << 20
    new_tokens = sum(map(len, contexts)) + replied  # a reply is decoded in its turn, and where it is parsed
    assert new_tokens <= drainer._memory.texts.decoded_tokens < 1.01 * new_tokens
    found = rows(tmp_path, "spans")
    assert len(found) == 3 * (2 * TURNS + 1)
    for row in found:
        assert row["text"] == byte_level.decode(row["tokens"], skip_special_tokens=False)
        assert sum(row["piece_chars"]) == len(row["text"])
        assert row["prompt_chars"] == sum(row["piece_chars"][: row["prompt_tokens"] or 0])


def test_tokens_of_a_tokenizer_that_is_not_there_stay_ids(tmp_path: Path, byte_level: Tokenizer) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, token2text=True)
    Agent(byte_level).generate([1, 2], [3])
    rolltrace.shutdown()
    (file,) = (tmp_path / "tokenizers").iterdir()
    file.unlink()
    drain(tmp_path)
    (row,) = rows(tmp_path, "spans")
    assert (row["text"], row["piece_chars"], row["tokens"]) == (None, None, [1, 2, 3])
    assert row["tokenizer"] == file.stem


def test_a_damaged_tokenizer_is_said_once_and_costs_the_text_only(
    tmp_path: Path, byte_level: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, token2text=True)
    for _ in range(3):
        Agent(byte_level).generate([1, 2], [3])
    rolltrace.shutdown()
    (file,) = (tmp_path / "tokenizers").iterdir()
    file.write_text("{")
    drain(tmp_path)
    assert [row["text"] for row in rows(tmp_path, "spans")] == [None] * 3
    assert caplog.text.count("no text beside token ids") == 1


def test_texts_of_an_own_process_join_the_tokens_of_their_op(tmp_path: Path) -> None:
    class Letters:
        def decode(self, ids: list[int]) -> str:
            return "".join(map(chr, ids))

    rolltrace.init("p", "e", "rolltrace", store=tmp_path, token2text=True)
    secret = "sk-" + "a1" * 20
    Agent(Letters()).generate(list(map(ord, f"use {secret}")), [33])  # type: ignore[arg-type]
    rolltrace.shutdown()
    drain(tmp_path)
    (text,) = rows(tmp_path, "spans")
    assert text["tokenizer"] == "own-process"
    assert text["text"] == "use [redacted: openai key, 43 chars]!"
    assert text["prompt_chars"] == len(text["text"]) - 1
    assert sum(text["piece_chars"]) == len(text["text"])
