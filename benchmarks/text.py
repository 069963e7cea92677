"""What token2text costs: `python -m benchmarks.text [--quick] [--json FILE]`.

Twenty turns whose prompt grows to 30,000 tokens, with a byte-level tokenizer of 150,000 tokens. First for the caller
(time on the processor), against the same calls with token2text off, then for the drainer.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.decoders import DecodeStream

import rolltrace
from benchmarks.rounds import Round
from benchmarks.stores import table_bytes
from benchmarks.table import Row, at_most, render, write_json
from benchmarks.tracers import scratch_folder
from rolltrace.drain import Follower
from rolltrace.text import fingerprint, load_detokenizer, pages, tokenizer_file

TURNS = 20
LONGEST_PROMPT = 30_000
RESPONSE = 300
PASSES = 5
VOCABULARY = 150_000
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call: what it sees and what it says."""

    prompt_ids: list[int]
    output: dict[str, Any]


def tokenizer() -> Tokenizer:
    """A byte-level tokenizer: the bytes, then made-up words, half of them after a space."""
    rng = random.Random(0)
    tokens = dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
    while len(tokens) < VOCABULARY:
        tokens[rng.choice(("", "Ġ")) + "".join(rng.choices(LETTERS, k=rng.randint(2, 7)))] = None
    byte_level = Tokenizer(models.WordLevel({token: at for at, token in enumerate(tokens)}, unk_token="!"))
    byte_level.decoder = decoders.ByteLevel()
    byte_level.add_special_tokens([f"<|special_{number}|>" for number in range(20)])
    return byte_level


def trajectory(seed: int) -> list[Turn]:
    """The turns of one rollout; each prompt is the one before, its response, and what a tool said."""
    rng = random.Random(seed)
    context: list[int] = []
    turns = []
    for turn in range(TURNS):
        due = LONGEST_PROMPT * (turn + 1) // TURNS - len(context)
        # Frequent tokens have small ids; some are bytes of a character that needs several.
        context = [*context, *(int(VOCABULARY ** rng.triangular(0.3, 1, 0.75)) - 1 for _ in range(due))]
        response = [rng.randrange(300, VOCABULARY) for _ in range(RESPONSE)]
        turns.append(Turn(context, {"token_ids": response, "logprobs": [-0.25] * RESPONSE}))
        context = [*context, *response]
    return turns


class Agent:
    """Plays the turns of a trajectory."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @rolltrace.rollout_trace_op(kind="llm", inputs=["prompt_ids"])
    def generate(self, prompt_ids: list[int], output: Any) -> Any:
        return output

    def play(self, turns: list[Turn], sample_index: int = 0) -> None:
        with rolltrace.rollout_trace_attr(sample_index, step=1):
            for turn in turns:
                self.generate(turn.prompt_ids, turn.output)


class OnlyDecodes:
    """A tokenizer that has no tokenizer.json, as those in Python."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


@contextmanager
def tracing(store: str | Path, *, token2text: bool) -> Iterator[None]:
    rolltrace.init("bench", "text", "rolltrace", store=store, drain="off", token2text=token2text)
    try:
        yield
        rolltrace.flush(timeout=600)
        stats = rolltrace.stats()
        if stats.losses or stats.internal_errors:
            raise RuntimeError(f"rolltrace lost records, the figures are void: {stats}")
    finally:
        rolltrace.shutdown()


def caller(byte_level: Tokenizer, turns: list[Turn], rounds: int) -> Iterator[Row]:
    """What a model call costs the rollout, once the tokenizer is in the store."""
    saved = b"".join(pages(byte_level))

    def calls(agent: Agent, *, token2text: bool) -> Round:
        def run() -> float:
            with scratch_folder() as store:
                file = tokenizer_file(Path(store), fingerprint(byte_level))
                file.parent.mkdir()
                file.write_bytes(saved)
                with tracing(store, token2text=token2text):
                    agent.play(turns[:2])
                    return min(_cpu_us(lambda: agent.play(turns)) for _ in range(PASSES)) / TURNS

        return run

    off = calls(Agent(byte_level), token2text=False)
    on = calls(Agent(byte_level), token2text=True)
    own = calls(Agent(OnlyDecodes(byte_level)), token2text=True)
    section = f"caller: a model call, prompts up to {LONGEST_PROMPT:,} tokens over {TURNS} turns"
    base, added = _added(off, on, rounds)
    yield Row(section, "token2text off", base, "us")
    yield Row(section, "added by token2text", added, "us")
    yield Row(section, "added, share of off", added / base, "x", at_most(0.05))
    _, added = _added(off, own, rounds)
    yield Row(section, "added, decoded by a thread of its own", added, "us")


def once(byte_level: Tokenizer) -> Iterator[Row]:
    """What a tokenizer costs when it is first seen."""
    section = f"once: a tokenizer of {VOCABULARY:,} tokens"
    yield Row(section, "each process: which one is it", 1e3 * _best(lambda: fingerprint(byte_level)), "ms", at_most(2))
    saving, stall = _stall(lambda: b"".join(pages(byte_level)))
    yield Row(section, "one process: saved, in the background", 1e3 * saving, "ms")
    yield Row(section, "longest that other threads wait for it", 1e3 * stall, "ms")
    _, stall = _stall(lambda: byte_level.to_str())
    yield Row(section, "to_str instead: longest wait", 1e3 * stall, "ms")


def draining(byte_level: Tokenizer, trajectories: list[list[Turn]]) -> Iterator[Row]:
    """What decoding costs the drainer, and how often it decodes a token."""
    raw = sum(len(json.dumps([turn.prompt_ids, turn.output])) for turns in trajectories for turn in turns)
    new = sum(len(turns[-1].prompt_ids) + RESPONSE for turns in trajectories)
    in_ops = sum(len(turn.prompt_ids) + RESPONSE for turns in trajectories for turn in turns)
    agent = Agent(byte_level)
    seconds: dict[str, float] = {}
    with scratch_folder() as folder:
        for name, token2text in (("off", False), ("on", True)):
            store = Path(folder, name)
            follower = Follower(store)
            texts = follower._memory.texts
            with tracing(store, token2text=token2text):
                agent.play(trajectories[0][:1])
            follower.drain()  # loads the libraries, and the tokenizer: once in the life of a drainer
            with tracing(store, token2text=token2text):
                for at, turns in enumerate(trajectories):
                    agent.play(turns, at)
            begin = time.process_time()
            follower.drain()
            seconds[name] = time.process_time() - begin
        sizes = {name: table_bytes(Path(folder, name)) for name in seconds}
    section = f"drainer: {len(trajectories)} such trajectories, {raw / 1e6:.0f} MB of raw JSON"
    yield Row(section, "drained, token2text off", raw / 1e6 / seconds["off"], "MB/s")
    yield Row(section, "drained, token2text on", raw / 1e6 / seconds["on"], "MB/s")
    yield Row(section, "tokens decoded / new tokens", texts.decoded_tokens / new, "x", at_most(1.05))
    yield Row(section, "tokens in all ops / new tokens", in_ops / new, "x")
    yield Row(section, "store with text / without", sizes["on"] / sizes["off"], "x")


def decoding(byte_level: Tokenizer, turns: list[Turn]) -> Iterator[Row]:
    """The table of bytes against the package, over the tokens of one long prompt."""
    ids = turns[-1].prompt_ids
    with scratch_folder() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_bytes(b"".join(pages(byte_level)))
        begin = time.perf_counter()
        table = load_detokenizer(path)
        loading = time.perf_counter() - begin
    column = pa.array(ids, type=pa.int32())

    def streamed() -> str:
        stream = DecodeStream(skip_special_tokens=False)
        return "".join(stream.step(byte_level, each) or "" for each in ids)

    assert table.rest(column, 0).text == byte_level.decode(ids, skip_special_tokens=False)
    section = f"decoding {len(ids):,} tokens"
    ours = _best(lambda: table.rest(column, 0))
    yield Row(section, "table of bytes, with pieces", 1e3 * ours, "ms")
    yield Row(
        section,
        "Tokenizer.decode, without",
        1e3 * _best(lambda: byte_level.decode(ids, skip_special_tokens=False)),
        "ms",
    )
    yield Row(section, "DecodeStream, with pieces", 1e3 * _best(streamed), "ms")
    yield Row(section, "loading the table, once", 1e3 * loading, "ms")


def _added(base: Round, other: Round, rounds: int) -> tuple[float, float]:
    """The cost of `base`, and what `other` adds: the median over pairs of rounds, one right after the other.

    The difference is much smaller than what two rounds a minute apart differ by, whoever they belong to.
    """
    costs, differences = [], []
    for number in range(rounds):
        gc.collect()
        first, second = (base, other) if number % 2 else (other, base)
        one, two = first(), second()
        cost, with_other = (one, two) if number % 2 else (two, one)
        costs.append(cost)
        differences.append(with_other - cost)
    return statistics.median(costs), statistics.median(differences)


def _cpu_us(work: Any) -> float:
    """Of this thread alone: what others do on the machine is not the caller's cost."""
    begin = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begin) / 1e3


def _best(work: Any, tries: int = 5) -> float:
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _stall(work: Any) -> tuple[float, float]:
    """How long some work in a thread takes, and the longest that this thread did not get on meanwhile."""
    thread = threading.Thread(target=work)
    begin = last = time.perf_counter()
    thread.start()
    longest = 0.0
    while thread.is_alive():
        time.sleep(0.0005)
        now = time.perf_counter()
        longest, last = max(longest, now - last - 0.0005), now
    return time.perf_counter() - begin, longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    byte_level = tokenizer()
    trajectories = [trajectory(seed) for seed in range(2 if options.quick else 16)]
    rows = [
        *caller(byte_level, trajectories[0], 2 if options.quick else 60),
        *once(byte_level),
        *draining(byte_level, trajectories),
        *decoding(byte_level, trajectories[0]),
    ]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
