"""A seeded multi-turn tool-use workload, as data.

A trajectory is a tree of ops in the shape that verl's ToolAgentLoop gives them: the agent loop's `run`
holds, turn by turn, a model call, the parsing of its tool call and the tool call. Every payload exists
before a clock starts, so what a benchmark measures is tracing and nothing else.
"""

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import msgpack

TOOL_TURNS = 6
"""With the run itself and the final answer this makes 20 ops a trajectory."""

FIRST_PROMPT_TOKENS = 1_000
LAST_PROMPT_TOKENS = 30_000
VOCABULARY = 151_936

SAMPLING = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 1024, "logprobs": True}
_words = random.Random(0)
WORDS = ["".join(_words.choices("etaoinshrdlucmfw", k=_words.randint(2, 9))) for _ in range(4_000)]
WEIGHTS = [1 / rank for rank in range(1, len(WORDS) + 1)]
"""Words as frequent as in any language: a few all the time, most of them rarely."""
WORD_IDS = {word: int(VOCABULARY ** _words.triangular(0.3, 1, 0.75)) - 1 for word in WORDS}
"""One token a word, frequent ones with small ids; digits and signs one by one, as Qwen's tokenizer takes them."""


@dataclass(slots=True)
class Op:
    """One call: what it is given, what it returns, and what it calls inside."""

    name: str
    """Also the name of the driver's method that plays it."""
    kind: str
    inputs: dict[str, Any]
    output: Any
    wait_sec: float = 0.0
    """How long the call waits for its model or its tool; only the async driver sleeps."""
    children: list["Op"] = field(default_factory=list)


@dataclass(slots=True)
class Trajectory:
    """One rollout: its coordinates and its ops."""

    sample_index: int
    rollout_n: int
    root: Op
    ops: list[Op]
    """All ops, each before its children: the order in which they start."""

    def payloads(self) -> list[Any]:
        """Every input and output once: what a tracer must at least keep."""
        return [payload for op in self.ops for payload in (op.inputs, op.output)]

    def size_bytes(self) -> int:
        """The msgpack size of all payloads."""
        return sum(len(msgpack.encode(payload)) for payload in self.payloads())


def generate(count: int, *, seed: int = 0, length: float = 1.0) -> list[Trajectory]:
    """Returns `count` trajectories, four rollouts a sample, the same ones for the same seed.

    `length` scales every text and token list, not the number of messages: 0.25 makes 10 kB an op instead of 41 kB.
    """
    rng = random.Random(seed)
    return [_trajectory(rng, length, sample_index=i // 4, rollout_n=i % 4) for i in range(count)]


def _trajectory(rng: random.Random, length: float, *, sample_index: int, rollout_n: int) -> Trajectory:
    sample = random.Random(sample_index)  # all rollouts of a sample begin with the same prompt
    first_tokens, last_tokens = int(FIRST_PROMPT_TOKENS * length), int(LAST_PROMPT_TOKENS * length)
    messages = [
        {"role": "system", "content": _text(sample, int(1_500 * length))},
        {"role": "user", "content": _text(sample, int(4_500 * length))},
    ]
    ids = _token_ids(" ".join(message["content"] for message in messages), first_tokens)
    mask: list[int] = []
    logprobs: list[float] = []
    raw_prompt = list(messages)
    steps: list[Op] = []
    for turn in range(TOOL_TURNS + 1):
        model_call = _model_call(rng, f"{sample_index}-{rollout_n}-{turn}", ids, messages, length)
        response = model_call.output
        steps.append(model_call)
        ids = ids + response["response_ids"]
        mask += [1] * len(response["response_ids"])
        logprobs += response["logprobs"]
        if turn == TOOL_TURNS:
            break
        parse, tool = _tool_use(rng, response["response_ids"], length)
        steps += [parse, tool]
        messages = [
            *messages,
            {"role": "assistant", "content": parse.output[0], "tool_calls": parse.output[1]},
            {"role": "tool", "content": tool.output["text"], "tool_call_id": f"call_{turn}"},
        ]
        due = first_tokens + (last_tokens - first_tokens) * (turn + 1) // TOOL_TURNS
        observation = _token_ids(tool.output["text"], due - len(ids))
        ids = ids + observation
        mask += [0] * len(observation)
        logprobs += [0.0] * len(observation)
    root = Op(
        name="run",
        kind="other",
        inputs={"raw_prompt": raw_prompt, "sampling_params": SAMPLING},
        output={
            "prompt_ids": ids[:first_tokens],
            "response_ids": ids[first_tokens:],
            "response_mask": mask,
            "response_logprobs": logprobs,
            "num_turns": 2 * TOOL_TURNS + 2,
            "metrics": {"generate_sequences": 31.4, "tool_calls": 2.7},
        },
        children=steps,
    )
    return Trajectory(sample_index, rollout_n, root, [root, *steps])


def _model_call(
    rng: random.Random, request_id: str, ids: list[int], messages: list[dict[str, Any]], length: float
) -> Op:
    tokens = int(rng.randint(200, 500) * length)
    content = _text(rng, 7 * tokens)
    return Op(
        name="generate",
        kind="llm",
        inputs={
            "request_id": request_id,
            "prompt_ids": ids,
            "messages": messages,
            "sampling_params": SAMPLING,
        },
        output={
            "response_ids": _token_ids(content, tokens),
            "logprobs": [_logprob(rng) for _ in range(tokens)],
            "stop_reason": "completed",
        },
        # A few hundred tokens take a busy server seconds; this is some ten times as fast.
        wait_sec=rng.uniform(0.05, 0.5),
    )


def _tool_use(rng: random.Random, response_ids: list[int], length: float) -> tuple[Op, Op]:
    arguments = {"query": _text(rng, 80), "limit": rng.randint(1, 50)}
    call = {"name": "search", "arguments": arguments}
    parse = Op(
        name="parse",
        kind="other",
        inputs={"response_ids": response_ids},
        output=[_text(rng, int(1_000 * length)), [call]],
    )
    tool = Op(
        name="call_tool",
        kind="tool",
        inputs={"tool_call": call, "tools_kwargs": {"timeout_sec": 30}},
        # Mostly digits, which Qwen's tokenizer takes one by one: many tokens for a few kB of text.
        output={"text": _table(rng, int(rng.randint(6_000, 9_000) * length)), "reward": 0.0, "truncated": False},
        wait_sec=rng.uniform(0.01, 0.1),
    )
    return parse, tool


def _token_ids(text: str, count: int) -> list[int]:
    """The first `count` tokens of a text; from its beginning again where it is too short."""
    ids = [WORD_IDS.get(piece, ord(piece[0])) for piece in re.findall(r"[a-z]+|[^a-z ]", text)]
    return (ids * (count // len(ids) + 1))[:count]


def _logprob(rng: random.Random) -> float:
    """Most tokens are nearly certain; a few are surprises."""
    return -rng.expovariate(100.0 if rng.random() < 0.75 else 0.7)


def _text(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, WEIGHTS, k=size // 5))[:size]


def _table(rng: random.Random, size: int) -> str:
    """What a tool finds: rows of numbers and words."""
    rows = size // 40
    numbers = ((rng.getrandbits(30), rng.random()) for _ in range(rows))
    return "\n".join(f"{number:010} | {share:.6f} | {_text(rng, 18)}" for number, share in numbers)


def from_chats(path: Path, count: int) -> list[Trajectory]:
    """Returns up to `count` trajectories made of somebody's own chats: JSON lines with `messages` in each.

    Each message of an assistant becomes a model call, with the conversation so far as its prompt, and each of a tool a
    tool call. Token ids are counted by words, since the file has none.
    """
    trajectories: list[Trajectory] = []
    with path.open() as lines:
        for number, line in enumerate(lines):
            if len(trajectories) == count:
                break
            messages = json.loads(line).get("messages")
            if not isinstance(messages, list) or not messages:
                raise SystemExit(f"{path}, line {number + 1}: no list of `messages`")
            trajectories.append(_of_chat(messages, sample_index=number // 4, rollout_n=number % 4))
    return trajectories


def _of_chat(messages: list[dict[str, Any]], *, sample_index: int, rollout_n: int) -> Trajectory:
    rng = random.Random(f"{sample_index}/{rollout_n}")
    steps: list[Op] = []
    ids: list[int] = []
    for place, message in enumerate(messages):
        text = json.dumps(message, ensure_ascii=False)
        of_message = _token_ids(text, len(text) // 4 + 1)
        if message.get("role") == "assistant":
            output = {
                "response_ids": of_message,
                "logprobs": [_logprob(rng) for _ in of_message],
                "message": message,
                "stop_reason": "completed",
            }
            inputs = {
                "request_id": f"{sample_index}-{rollout_n}-{place}",
                "prompt_ids": list(ids),
                "messages": messages[:place],
                "sampling_params": SAMPLING,
            }
            steps.append(Op("generate", "llm", inputs, output, wait_sec=rng.uniform(0.05, 0.5)))
        elif message.get("role") == "tool":
            call = {"tool_call": {"id": message.get("tool_call_id")}, "tools_kwargs": {}}
            steps.append(
                Op("call_tool", "tool", call, {"text": message.get("content")}, wait_sec=rng.uniform(0.01, 0.1))
            )
        ids += of_message
    run = {"raw_prompt": messages[:1], "sampling_params": SAMPLING}
    root = Op("run", "other", run, {"prompt_ids": ids, "num_turns": len(steps)}, children=steps)
    return Trajectory(sample_index, rollout_n, root, [root, *steps])
