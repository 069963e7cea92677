"""Stores for the viewer's tests, its screenshots and its developers, recorded with rolltrace itself.

    python -m tests.view.stores FOLDER                  several experiments with a bit of everything ("demo")
    python -m tests.view.stores FOLDER --size 20000     one experiment of so many trajectories
    python -m tests.view.stores FOLDER --live           go on recording into it until Ctrl-C, in real time

Times come from a clock of our own, so that ops take as long as real ones would.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import rolltrace
from rolltrace.capture import scope
from tests.draining import drain
from tests.view.texts import CORPUS, HOSTILE, QUESTIONS, RESULTS, SENTENCES, THOUGHTS, TOOLS

Message = dict[str, Any]
BEGIN_NS = 1_780_000_000_000_000_000
"""When the first run began."""
SECOND = 1_000_000_000
PROJECT, EXPERIMENT = "maths", "grpo-7b"
"""The experiment with a bit of everything."""
BIG = ("bench", "twenty-thousand")


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
    ) -> tuple[rolltrace.Trajectory, float]:  # fmt: skip
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


@contextmanager
def recording(store: Path, project: str, experiment: str, run: str, rollouts: Rollouts) -> Iterator[None]:
    """Tracing into the store, with the rollouts' clock."""
    rolltrace.init(
        project, experiment, "rolltrace", store=store, run=run, drain="off", token2text=True, quiet=True,
        tokenizer=rollouts.tokenizer,
    )  # fmt: skip
    recorder = scope.recorder
    assert recorder is not None
    recorder.random_bytes = rollouts.ids.randbytes
    if rollouts.clock is not None:
        recorder.wall_ns = recorder.tick_ns = rollouts.clock
    try:
        yield
    finally:
        rolltrace.shutdown()


def late_scores(rewards: list[tuple[rolltrace.Trajectory, float]], step: int) -> None:
    """What a trainer says after a step: advantages, and what became of each trajectory."""
    values = [reward for _, reward in rewards]
    for trajectory, reward in rewards:
        rolltrace.score(trajectory, "advantage", reward - sum(values) / len(values))
        if len(set(values)) == 1:
            rolltrace.score(trajectory, "fate", "filtered", reason="all rewards of its group are the same")
        else:
            rolltrace.score(trajectory, "fate", "trained", reason=f"in the batch of step {step + 1}")


_ODDITIES = ("prefix_break", "mixed_policy", "truncated", "tool_error", "repetition", "image", "note")


def write_maths(store: Path, steps: int, samples: int, size: int) -> None:
    """The experiment with a bit of everything; its second run goes on from the last but one step of the first."""
    rollouts = Rollouts(1, Clock())
    for run, covered in (("run-a", range(steps - 1)), ("run-b", range(steps - 2, steps))):
        with recording(store, PROJECT, EXPERIMENT, run, rollouts):
            for step in covered:
                start_ns = BEGIN_NS + (step * 60 + (3600 if run == "run-b" else 0)) * SECOND
                learned = step / max(steps - 1, 1)
                for sample in range(samples):
                    _group(rollouts, step, sample * 17, size, start_ns, learned)
                if step % 2 == 0:
                    for sample in range(3):
                        for n in range(2):
                            rollouts.rollout(
                                step, sample, n, validate=True, start_ns=start_ns + 30 * SECOND, learned=learned,
                                split="test",
                            )  # fmt: skip
    with recording(store, PROJECT, EXPERIMENT, "run-b", rollouts):
        last, start_ns = steps - 1, BEGIN_NS + (steps * 60 + 3600) * SECOND
        for n in range(4):
            rollouts.rollout(last, "hostile-<b>", n, odd=frozenset({"hostile"}), start_ns=start_ns, note=HOSTILE[n + 1])
            rollouts.rollout(last, "d5f1c2aa-uuid", n, odd=frozenset({"long"}), turns=8, start_ns=start_ns)
        for n, oddity in enumerate(_ODDITIES):
            rollouts.rollout(last, "oddities", n, odd=frozenset({oddity}), turns=4, start_ns=start_ns, oddity=oddity)
        _nested(rollouts, last, start_ns)


def _group(rollouts: Rollouts, step: int, sample: int, size: int, start_ns: int, learned: float) -> None:
    rewards = []
    rng = rollouts.rng
    same = rng.random() < 0.2
    for n in range(size):
        odd = {"zero variance"} if same else set()
        odd |= {f"alike {turn}" for turn in range(rng.choice((0, 1, 1, 2, 3)))}
        if rng.random() < 0.25:
            odd.add(rng.choice(_ODDITIES))
        if rng.random() < 0.02:
            odd.add("error")
        if (step, sample, n) == (2, 17, 1):
            odd.add("nan")
        tags = {"difficulty": rng.choice(("easy", "hard")), "domain": ("airline", "算术")[sample % 2]}
        try:
            rewards.append(
                rollouts.rollout(step, sample, n, odd=frozenset(odd), start_ns=start_ns, learned=learned, **tags)
            )
        except TimeoutError:  # recorded, and not scored
            pass
    if rewards:
        late_scores(rewards, step)


def _nested(rollouts: Rollouts, step: int, start_ns: int) -> None:
    """A rollout that asks another agent, which is a trajectory of its own."""
    rollouts.clock.now_ns = start_ns  # type: ignore[union-attr]
    with rolltrace.rollout_trace_attr("planner", step, 0, name="planner") as outer:

        @rolltrace.rollout_trace_op(name="delegate")
        def delegate(task: str) -> str:
            with rolltrace.rollout_trace_attr("planner", step, 0, name="sub-agent"):
                return rollouts.run([{"role": "user", "content": task}], 2, step, frozenset())

        delegate(QUESTIONS[5])
        outer.reward(0.5)


def write_env(store: Path) -> None:
    """Environment steps, as tinker's cookbook has them."""
    rollouts = Rollouts(2, Clock())
    with recording(store, "games", "gridworld", "run-env", rollouts):
        for step in range(3):
            for n in range(4):
                rollouts.clock.now_ns = BEGIN_NS + step * 100 * SECOND  # type: ignore[union-attr]
                with rolltrace.rollout_trace_attr(n % 2, step, n, name="episode") as trajectory:
                    _episode(rollouts, trajectory, step)


def _episode(rollouts: Rollouts, trajectory: rolltrace.Trajectory, step: int) -> None:
    x, y, total = 0, 0, 0.0
    prompt: list[Message] = []
    ids: list[int] = []
    for move in range(5):
        action = rollouts.rng.choice(("left", "right", "up", "down"))
        state = {"x": x, "y": y, "inventory": ["key"] * (move > 2), "地图": [[0, 1], [1, 0]]}
        prompt = [*prompt, {"role": "user", "content": f"You are at ({x}, {y}). Where do you go?"}]
        ids = [*ids, *rollouts.rendered(prompt[-1])]
        reply = {"role": "assistant", "content": action}
        ids = [*ids, *rollouts.generate(prompt, ids, reply, step)["token_ids"]]
        prompt = [*prompt, reply]
        x, y = x + (action == "right") - (action == "left"), y + (action == "up") - (action == "down")
        reward = round(rollouts.rng.uniform(-0.2, 1.0), 3)
        total += reward
        trace = rolltrace.RolloutTrace(
            prompt=prompt, policy_response=action, env_state=state, extra={"move": move},
            reward_data={"distance": reward / 2, "bonus": reward / 2},
        )  # fmt: skip
        done = move == 4
        trajectory.transition(
            trace, reward=reward, episode_done=done, metrics={"moves": move + 1}, stop_reason="won" if done else None
        )
    trajectory.reward(total, terms={"distance": total / 2, "bonus": total / 2})


def write_tokens_only(store: Path) -> None:
    """As verl records it: token ids and no messages, so that the conversation is read off the decoded text."""
    rollouts = Rollouts(3, Clock())
    with recording(store, "verl", "tool-agent", "run-verl", rollouts):
        for step in range(1, 4):
            for sample in range(3):
                for n in range(4):
                    rollouts.rollout(
                        step, sample, n, odd=frozenset({"tokens only"}), start_ns=BEGIN_NS + step * 90 * SECOND,
                        learned=step / 4,
                    )  # fmt: skip


def _die_in_the_middle(store: Path) -> None:
    rollouts = Rollouts(4, Clock())
    with recording(store, PROJECT, "interrupted", "run-killed", rollouts):
        for n in range(2):
            rollouts.rollout(0, 0, n, start_ns=BEGIN_NS)
        with rolltrace.rollout_trace_attr(0, 0, 2, name="agent_loop"):

            @rolltrace.rollout_trace_op(name="python", kind="tool")
            def hang(code: str) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            hang("while True: pass")


def write_interrupted(store: Path) -> None:
    """An experiment whose process was killed in a tool call."""
    child = multiprocessing.get_context("fork").Process(target=_die_in_the_middle, args=(store,))
    child.start()
    child.join()


def write_demo(store: Path, *, steps: int = 8, samples: int = 6, size: int = 8) -> Path:
    """Several experiments with a bit of everything."""
    write_tokens_only(store)
    write_env(store)
    write_interrupted(store)
    write_maths(store, steps, samples, size)
    drain(store, compacted=True)
    return store


def write_big(store: Path, count: int, *, per_step: int = 400, size: int = 8) -> Path:
    """One experiment of many trajectories; the first of them has 30 turns and 30,000 tokens."""
    rollouts = Rollouts(5, Clock())
    for step in range(max(1, count // per_step)):
        start_ns = BEGIN_NS + step * 120 * SECOND
        with recording(store, *BIG, "run-big", rollouts):
            if step == 0:
                rollouts.rollout(0, "long", 0, odd=frozenset({"long"}), turns=30, start_ns=start_ns)
            for sample in range(per_step // size):
                _group(rollouts, step, sample, size, start_ns, step * per_step / count)
        drain(store)
        sys.stderr.write(f"\r{(step + 1) * per_step:,} trajectories")
    sys.stderr.write("\n")
    drain(store, compacted=True)
    return store


def go_on_recording(store: Path) -> None:
    """Rollouts in real time, four at a time, until Ctrl-C; one of them hangs."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record_live, args=(store, at)) for at in range(4)]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.terminate()


def _record_live(store: Path, at: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    rollouts = Rollouts(100 + at, None)
    with recording(store, "live", "right-now", "run-live", rollouts):
        for step in range(1_000_000):
            rollouts.rollout(step, step % 5, at, learned=min(1.0, step / 50))
            if at == 3 and step == 2:
                with rolltrace.rollout_trace_attr(99, step, at, name="hangs"):
                    rollouts.tool("python", {"code": "while True: pass"}, "")
                    rollouts.generate(None, [1, 2], {"role": "assistant", "content": "…"}, step)
                    _hang(rollouts)


@rolltrace.rollout_trace_op(name="python", kind="tool")
def _hang(rollouts: Rollouts) -> None:
    rollouts.wait(1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="demo", help="demo, small, or a number of trajectories")
    parser.add_argument("--live", action="store_true", help="go on recording until Ctrl-C; an existing store is kept")
    options = parser.parse_args()
    os.environ["ROLLTRACE_STRICT"] = "1"
    if not options.folder.exists():
        if options.size == "demo":
            write_demo(options.folder)
        elif options.size == "small":
            write_demo(options.folder, steps=4, samples=3, size=4)
        else:
            write_big(options.folder, int(options.size))
    if options.live:
        go_on_recording(options.folder)


if __name__ == "__main__":
    main()
