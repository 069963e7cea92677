"""A toy rollout with a model, a tool and a reward, traced, killed with kill -9, read back, and looked at.

Run it with `make demo`, or `python examples/toy_rollout.py`. Its store stays, so that it can be looked at.
"""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict

import rolltrace
from rolltrace.cli.view import has_browser
from rolltrace.journal import Entry, read_journals
from rolltrace.record import OpEnd, OpStart, decode_coordinates, decode_value


class Calculator:
    @rolltrace.rollout_trace_op(kind="tool")
    async def execute(self, expression: str) -> dict[str, object]:
        await asyncio.sleep(0.01)
        left, sign, right = expression.split()
        if sign == "/" and right == "0":
            raise ZeroDivisionError(f"cannot compute {expression}")
        return {"result": int(left) + int(right) if sign == "+" else int(left) * int(right)}


class ToyAgent:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tool = Calculator()

    @rolltrace.rollout_trace_op(kind="llm")
    async def generate(self, prompt_ids: list[int], temperature: float = 1.0) -> dict[str, list[float]]:
        await asyncio.sleep(0.02)
        count = self.random.randint(4, 9)
        return {
            "token_ids": [self.random.randrange(50_000) for _ in range(count)],
            "logprobs": [-self.random.expovariate(3) for _ in range(count)],
        }

    @rolltrace.rollout_trace_op
    async def run(self, question: str) -> dict[str, object]:
        prompt_ids = [ord(letter) for letter in question]
        for _turn in range(2):
            reply = await self.generate(prompt_ids)
            prompt_ids = prompt_ids + [int(each) for each in reply["token_ids"]]
            try:
                await self.tool.execute(self.random.choice(["6 * 7", "20 + 22", "1 / 0"]))
            except ZeroDivisionError:
                pass  # the model is told, and goes on
        return {"answer": 42, "prompt_ids": prompt_ids}


async def rollouts(store: str) -> None:
    rolltrace.init("demo", "toy", backend="rolltrace", store=store)

    async def one(rollout_n: int) -> None:
        with rolltrace.rollout_trace_attr(
            sample_index="answer-to-everything", step=1, rollout_n=rollout_n
        ) as trajectory:
            await ToyAgent(seed=rollout_n).run("What is six times seven?")
            trajectory.reward(1.0, terms={"correct": 1.0, "brevity": 0.0})

    await asyncio.gather(*(one(n) for n in range(2)))
    os.kill(os.getpid(), signal.SIGKILL)  # no goodbye: nothing is flushed, closed or sent


def print_tree(store: str) -> None:
    ended: dict[int, OpEnd] = {}
    children: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for _, item in read_journals(store):
        if isinstance(item, Entry) and isinstance(item.record, OpStart):
            children[item.record.trajectory_id, item.record.parent_id].append(item.record.op_id)
        elif isinstance(item, Entry) and isinstance(item.record, OpEnd):
            ended[item.record.op_id] = item.record

    def show(trajectory_id: bytes, op_id: int, depth: int) -> None:
        op = ended[op_id]
        inputs = ", ".join(f"{name}={_short(value)}" for name, value in (decode_value(op.inputs) or {}).items())
        outcome = f"!! {op.error.type}: {op.error.message}" if op.error else _short(decode_value(op.outputs))
        print(
            f"  {'   ' * depth}{op.kind:>5} {op.name}({inputs}) -> {outcome}  {(op.end_ns - op.start_ns) / 1e6:.1f} ms"
        )
        for child in children[trajectory_id, op_id]:
            show(trajectory_id, child, depth + 1)

    for trajectory_id in dict.fromkeys(op.trajectory_id for op in ended.values()):
        tops = children[trajectory_id, 0]
        where = decode_coordinates(ended[tops[0]].coordinates)
        print(f"\nstep {where.step}  sample {where.sample_index}  rollout {where.rollout_n}  {trajectory_id.hex()[:8]}")
        for top in tops:
            show(trajectory_id, top, 0)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 48 else f"{text[:45]}..."


def main() -> None:
    store = tempfile.mkdtemp(prefix="rolltrace-demo-")
    child = os.fork()
    if child == 0:
        asyncio.run(rollouts(store))
    _, status = os.waitpid(child, 0)
    print(f"The rollout was killed by signal {os.WTERMSIG(status)} right after its last op. Its journal holds:")
    print_tree(store)
    print(f"\nTo look at it in a browser: {shlex.quote(_command())} view {shlex.quote(store)}", flush=True)
    if has_browser():
        subprocess.run([sys.executable, "-m", "rolltrace", "view", store], check=False)


def _command() -> str:
    """`rolltrace`, as it can be typed here: beside this Python, if that is in no active environment."""
    beside = os.path.join(os.path.dirname(sys.executable), "rolltrace")
    return "rolltrace" if shutil.which("rolltrace") or not os.path.exists(beside) else os.path.relpath(beside)


if __name__ == "__main__":
    main()
