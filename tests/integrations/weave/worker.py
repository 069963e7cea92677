"""A rollout process: `worker.py STORE NUMBER TRAJECTORIES [hang]`. With `hang` it waits to be killed in one more.

Each line on stdout names a trajectory that has ended, or the one that waits. Drained as ROLLTRACE_DRAIN says.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, str]], prompt_ids: list[int]) -> dict[str, Any]:
    turn = len(messages)
    return {
        "text": f"第{turn}轮:调用 search 🔎\nline",
        "token_ids": [turn * 1000 + n for n in range(20)],
        "logprobs": [-0.25 * n for n in range(19)] + [float("nan")],
    }


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> dict[str, Any]:
    if query == "坏":
        raise LookupError("没有找到 «坏»")
    return {"hits": [query * 3, None, True, 1.5], "link": "weave:///not/a/ref", "object": {"_type": "x"}, "n": 1 << 80}


@rolltrace.rollout_trace_op(kind="reward")
def judge(text: str) -> float:
    return float("inf") if "never" in text else 0.5


@rolltrace.rollout_trace_op
def agent(question: str, bad: bool) -> str:
    messages = [{"role": "user", "content": question}]
    for turn in range(2):
        reply = generate(list(messages), list(range(10 * (turn + 1))))
        messages.append({"role": "assistant", "content": reply["text"]})
        try:
            result = str(search("坏" if bad and turn else "巴黎"))
        except LookupError as fault:
            result = str(fault)
        messages.append({"role": "tool", "content": result})
    judge(messages[-1]["content"])
    if bad and "3" in question:
        raise RuntimeError(f"gave up on {question}")
    return messages[-1]["content"]


def rollout(worker: int, number: int) -> None:
    where = {"step": number // 4, "rollout_n": worker, "validate": number % 4 == 3}
    sample = number if number % 2 else f"uuid-{number}"
    with rolltrace.rollout_trace_attr(sample, difficulty="难" if worker else "easy", **where) as trajectory:
        try:
            agent(f"问题 {number}", bad=number % 3 == 0)
        except RuntimeError:
            pass
    trajectory.reward(number / 10, terms={"format": 1.0, "correct": number / 10 - 1})
    os.write(1, f"{trajectory.id}\n".encode())


@rolltrace.rollout_trace_op(kind="env")
def hang(trajectory_id: str) -> None:
    os.write(1, f"{trajectory_id}\n".encode())
    threading.Event().wait()


def main() -> None:
    store, worker, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    backend = os.environ.get("ROLLTRACE_BACKEND", "rolltrace")
    rolltrace.init(os.environ["PROJECT"], "试验 1", backend, store=store, limits={"segment_bytes": "64KiB"})
    for number in range(count):
        rollout(worker, number)
    if "hang" in sys.argv:
        with rolltrace.rollout_trace_attr(99, step=9, rollout_n=worker) as trajectory:
            search("前")
            hang(trajectory.id)
    rolltrace.shutdown()


if __name__ == "__main__":
    main()
