"""Rollouts for the stores of the viewer: a model that learns, tools that fail, and whatever else goes wrong; seeded."""

from __future__ import annotations

import functools
import json
import random
import time
from typing import Any

from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import rolltrace
from tests.view.texts import CORPUS, HOSTILE, QUESTIONS, RESULTS, SENTENCES, THOUGHTS, TOOLS

Message = dict[str, Any]
BEGIN_NS = 1_780_000_000_000_000_000
"""When the first run began."""
SECOND = 1_000_000_000


@functools.cache
def tokenizer() -> Tokenizer:
    """A small byte-level tokenizer with the special tokens of ChatML."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return made


class Clock:
    """Nanoseconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now_ns = BEGIN_NS

    def __call__(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)


class Rollouts:
    """Plays rollouts of a model that learns: the later the step, the higher the reward."""

    def __init__(self, seed: int, clock: Clock | None) -> None:
        self.rng = random.Random(seed)
        self.ids = random.Random(f"ids {seed}")
        self.clock = clock
        self.tokenizer = tokenizer()

    def wait(self, seconds: float) -> None:
        if self.clock is None:
            time.sleep(seconds)
        else:
            self.clock.advance(seconds)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text.encode(errors="replace").decode()).ids
        return ids

    def rendered(self, message: Message) -> list[int]:
        content = message["content"]
        if not isinstance(content, str):
            content = " ".join(part.get("text", "<image>") for part in content)
        return self.encode(f"<|im_start|>{message['role']}\n{content}<|im_end|>\n")

    @rolltrace.rollout_trace_op(name="generate", kind="llm")
    def generate(
        self, messages: list[Message] | None, prompt_ids: list[int], reply: Message, policy_version: int, **how: Any
    ) -> Message:
        text = reply["content"] if isinstance(reply["content"], str) else str(reply["content"])
        calls = "".join(
            f"\n<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
            for call in reply.get("tool_calls", ())
        )
        ids = self.encode(text + calls + "<|im_end|>")
        self.wait(0.02 + len(ids) * 0.012)
        rng = self.rng
        return {
            **reply,
            "token_ids": ids,
            "logprobs": [-rng.expovariate(60.0 if rng.random() < 0.7 else 0.8) for _ in ids],
            "response_mask": [1] * len(ids),
            "policy_version": policy_version,
            "finish_reason": how.get("finish_reason", "stop"),
        }

    def tool(self, name: str, arguments: dict[str, Any], outcome: Any) -> Any:
        @rolltrace.rollout_trace_op(name=name, kind="tool")
        def call(arguments: dict[str, Any]) -> Any:
            self.wait(self.rng.uniform(0.01, 0.4))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return call(arguments)

    @rolltrace.rollout_trace_op(name="compute_score", kind="reward")
    def judge(self, answer: str, terms: dict[str, float]) -> float:
        self.wait(0.05)
        return sum(terms.values()) / len(terms)

    @rolltrace.rollout_trace_op(name="run")
    def run(self, messages: list[Message], turns: int, step: int, odd: frozenset[str]) -> str:
        """A conversation of so many turns; `odd` says what goes wrong in it."""
        rng = self.rng
        ids = [token for message in messages for token in self.rendered(message)]
        history = list(messages)
        reply: Message = {}
        for turn in range(turns):
            ids = [*ids, *self.encode("<|im_start|>assistant\n")]
            reply, call, outcome = self._turn(turn, turns, odd, messages[-1]["content"])
            cut = "truncated" in odd and turn == turns - 1
            given = None if "tokens only" in odd else history
            how = {"finish_reason": "length" if cut else "stop", "sampling_params": {"temperature": 1.0}}
            version = step - (turn == 0 and "mixed_policy" in odd)
            output = self.generate(given, ids, reply, version, **how)
            history = [*history, reply]
            ids = [*ids, *output["token_ids"], *self.encode("\n")]
            if "prefix_break" in odd and turn == 1:
                ids = self._tokenised_anew(ids, len(output["token_ids"]))
            if call is None:
                break
            try:
                result = self.tool(call["name"], call["arguments"], outcome)
                content: Any = (
                    result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
                )
                if isinstance(result, Image.Image):
                    content = [{"type": "text", "text": "a chart"}, {"type": "image", "image": result}]
            except NameError as error:
                content = f"{type(error).__name__}: {error}"
            message = {"role": "tool", "name": call["name"], "tool_call_id": f"call_{turn}", "content": content}
            history = [*history, message]
            ids = [*ids, *self.rendered(message)]
            self.wait(rng.uniform(0.001, 0.02))
        return str(reply.get("content"))

    def _turn(
        self, turn: int, turns: int, odd: frozenset[str], question: str
    ) -> tuple[Message, dict[str, Any] | None, Any]:
        # Rollouts of a sample often begin alike, and part later.
        rng = random.Random(f"{question} {turn}") if f"alike {turn}" in odd else self.rng
        reasoning, text = rng.choice(THOUGHTS), rng.choice(SENTENCES)
        if "hostile" in odd:
            reasoning, text = rng.choice(HOSTILE), HOSTILE[turn % len(HOSTILE)]
        if "long" in odd:
            text = " ".join(rng.choices(SENTENCES, k=60))
        if "repetition" in odd and turn == turns - 1:
            text = "I look it up again. " * 60
        reply: Message = {"role": "assistant", "content": text}
        if turn % 2 == 0:
            reply["content"] = f"<think>\n{reasoning}\n</think>\n{text}"
        elif rng.random() < 0.3:
            reply["reasoning_content"] = reasoning
        if turn == turns - 1:
            return reply, None, None
        name = rng.choice(TOOLS)
        argument = {"search": "query", "python": "code", "book": "flight"}[name]
        arguments = {argument: rng.choice((*QUESTIONS, *SENTENCES))[:60], "limit": rng.randint(1, 9)}
        outcome: Any = rng.choice(RESULTS)
        if "hostile" in odd:
            name, outcome = f"tool-{HOSTILE[0]}", HOSTILE[(turn + 1) % len(HOSTILE)]
        if "tool_error" in odd and turn == min(1, turns - 2):
            outcome = NameError("name 'fare_new' is not defined")
        if "image" in odd and turn == 0:
            outcome = Image.linear_gradient("L").resize((96, 64))
        function = {"name": name, "arguments": arguments}
        reply["tool_calls"] = [{"id": f"call_{turn}", "type": "function", "function": function}]
        return reply, function, outcome

    def _tokenised_anew(self, ids: list[int], count: int) -> list[int]:
        """The same text; the second half of the last `count` tokens letter by letter, as another tokenizer might."""
        at = len(ids) - count // 2
        text = self.tokenizer.decode(ids[at:], skip_special_tokens=False)
        return [*ids[:at], *(token for letter in text for token in self.encode(letter))]

    def rollout(
        self, step: int, sample: int | str, n: int, *, validate: bool = False, odd: frozenset[str] = frozenset(),
        turns: int | None = None, start_ns: int | None = None, learned: float = 0.5, **tags: Any,
    ) -> tuple[rolltrace.capture.TrajectoryHandle, float]:  # fmt: skip
        """One rollout; its handle and its reward."""
        rng = self.rng
        if self.clock is not None and start_ns is not None:
            self.clock.now_ns = start_ns + rng.randrange(2 * SECOND)
        question = HOSTILE[n % len(HOSTILE)] if "hostile" in odd else QUESTIONS[hash_of(sample) % len(QUESTIONS)]
        messages = [
            {"role": "system", "content": "You are a careful assistant. Use tools, think first, answer briefly."},
            {"role": "user", "content": question},
        ]
        name = HOSTILE[0] if "hostile" in odd else "agent_loop"
        with rolltrace.rollout_trace_attr(sample, step, n, name=name, validate=validate, **tags) as trajectory:
            if "error" in odd:
                self.generate(messages, self.rendered(messages[1]), {"role": "assistant", "content": "…"}, step)
                raise TimeoutError("the environment did not answer within 30 s")
            answer = self.run(messages, turns or rng.randint(2, 6), step, odd)
            hard = (hash_of(sample) % 7) / 7
            terms = {
                "format": float(rng.random() < 0.6 + 0.4 * learned),
                "correct": float(rng.random() < 0.15 + 0.8 * learned - 0.4 * hard),
                "brevity": round(rng.uniform(0, 0.3), 2),
            }
            if "zero variance" in odd:
                terms = dict.fromkeys(terms, 1.0)
            reward = self.judge(answer, terms)
            trajectory.reward(float("nan") if "nan" in odd else reward, terms=terms)
            if "note" in odd:
                trajectory.note("the user was polite 很有礼貌", mood=0.8)
        return trajectory, reward


def hash_of(sample: int | str) -> int:
    return sample if isinstance(sample, int) else sum(sample.encode())
