"""What recording a rollout of tinker-cookbook costs: not installed, installed and off, on, and a deepcopy at each step.

Real `run_rollout` and `EnvFromMessageEnv`, with a policy and a renderer that do next to nothing, so that what is
measured is the tracing. The deepcopy is what an environment would have to do that keeps its history itself before it
appends to it. Each is measured in processes of its own, in turn, several times over. Run with `make bench-tinker`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from importlib import import_module
from typing import Any

VARIANTS = ("none", "off", "on", "deepcopy", "messages")
"""The last two copy what is recorded, tokens and all, and of that the messages alone."""
ROUNDS = 5
ROLLOUTS = 60
TURNS = 10
_MESSAGE = "The quick brown fox jumps over the lazy dog. " * 40
"""1.8 kB: ten turns of it, and as much from the environment, make 36 kB in the end."""
_TOKENS = 450


def main() -> None:
    print(f"{ROLLOUTS} rollouts of {TURNS} turns, {len(_MESSAGE)} characters and {_TOKENS} tokens a message")
    print(f"CPU time, medians of {ROUNDS} rounds\n")
    costs: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(ROUNDS):
        for variant in VARIANTS:
            costs[variant].append(measure(variant))
    medians = {variant: statistics.median(values) for variant, values in costs.items()}
    print(f"{'':<12}{'us a step':>12}{'more than none':>18}{'least':>10}{'most':>10}")
    for variant, values in costs.items():
        more = medians[variant] - medians["none"]
        print(f"{variant:<12}{medians[variant]:>12.0f}{more:>18.0f}{min(values):>10.0f}{max(values):>10.0f}")
    if medians["on"] >= medians["deepcopy"]:
        sys.exit("tracing costs as much as a deepcopy at each step")


def measure(variant: str) -> float:
    """Microseconds of CPU time for a step, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        environment = {**os.environ, "ROLLTRACE_STORE": folder, "HF_HUB_OFFLINE": "1", "TINKER_API_KEY": "tml-none"}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.tinker_cost", variant]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return float(json.loads(done.stdout.rstrip().rpartition("\n")[2]))


def play(variant: str) -> None:
    """In its own process: print what a step takes."""
    import rolltrace
    from rolltrace.integrations import tinker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_env, policy = _parts(variant)
    if variant in ("off", "on"):
        tinker.install_when_imported()
    if variant == "on":
        rolltrace.init("bench", "tinker", drain="off", quiet=True)
    do_single_rollout = import_module("tinker_cookbook.rl.rollouts").do_single_rollout

    async def rollouts(number: int) -> None:
        for _ in range(number):
            await do_single_rollout(policy, make_env())

    asyncio.run(rollouts(ROLLOUTS // 4))
    began = time.process_time()
    asyncio.run(rollouts(ROLLOUTS))
    print(json.dumps((time.process_time() - began) * 1e6 / (ROLLOUTS * TURNS)))
    rolltrace.shutdown()


def _parts(variant: str) -> tuple[Any, Any]:
    """How an environment is made, and the policy."""
    completers = import_module("tinker_cookbook.completers")
    message_env = import_module("tinker_cookbook.rl.message_env")
    base = import_module("tinker_cookbook.renderers.base")
    tinker = import_module("tinker")
    tokens = list(range(_TOKENS))
    chunk = tinker.EncodedTextChunk(tokens=tokens)
    answer = completers.TokensWithLogprobs(tokens, [-0.5] * _TOKENS, "stop")

    class Renderer(base.Renderer):  # type: ignore[misc, name-defined]
        tokenizer = None

        def __init__(self) -> None: ...

        def get_stop_sequences(self) -> list[str]:
            return []

        def render_message(self, *_: Any) -> Any: ...

        def build_generation_prompt(self, messages: Any, *_: Any, **__: Any) -> Any:
            return tinker.ModelInput(chunks=[chunk] * len(messages))

        def parse_response(self, response: Any) -> Any:
            return {"role": "assistant", "content": _MESSAGE}, base.ParseTermination.STOP_SEQUENCE

    class Env(message_env.MessageEnv):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.history: list[Any] = [{"role": "user", "content": _MESSAGE}]
            self.copies: list[Any] = []

        async def initial_observation(self) -> Any:
            return self.history

        async def step(self, message: Any) -> Any:
            if variant in ("deepcopy", "messages"):
                self.copies.append(copy.deepcopy({"prompt": self.history, "policy_response": message}))
            self.history.append(message)
            self.history.append({"role": "user", "content": f"{len(self.history)}: {_MESSAGE}"})
            metrics, logs = {"turn": float(len(self.history))}, {"said": _MESSAGE}
            done = len(self.history) > 2 * TURNS
            return message_env.MessageStepResult(0.0, done, self.history, metrics, logs)

    class Policy(completers.TokenCompleter):  # type: ignore[misc, name-defined]
        async def __call__(self, model_input: Any, *_: Any, **__: Any) -> Any:
            if variant == "deepcopy":
                copy.deepcopy((model_input, answer))
            return answer

    renderer = Renderer()
    return (lambda: message_env.EnvFromMessageEnv(renderer, Env())), Policy()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        play(sys.argv[1])
    else:
        main()
