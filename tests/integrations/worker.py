"""A rollout process for the tests of backends: `worker.py STORE PROJECT BACKEND NUMBER COUNT`.

Each line on stdout names a trajectory that has ended. With `asked` for a count it does one for each line on stdin.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, Any]], prompt_ids: list[int], model: str = "qwen-tiny") -> dict[str, Any]:
    turn = len(messages)
    return {
        "text": f"第{turn}轮：查一下 🔎",
        "token_ids": [turn * 100 + n for n in range(8)],
        "logprobs": [-0.25] * 8,
        "finish_reason": "stop",
        "policy_version": 3,
    }


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> dict[str, Any]:
    if query == "坏":
        raise LookupError("没有找到 «坏»")
    return {"hits": [query * 3, None, True, 1.5]}


@rolltrace.rollout_trace_op
def agent(question: str, bad: bool) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for turn in range(2):
        reply = generate(list(messages), list(range(10 * (turn + 1))))
        messages.append({"role": "assistant", "content": reply["text"]})
        try:
            result = str(search("坏" if bad and turn else "巴黎"))
        except LookupError as fault:
            result = str(fault)
        messages.append({"role": "tool", "content": result})
    return str(messages[-1]["content"])


def rollout(worker: int, number: int) -> str:
    where: dict[str, Any] = {"step": number // 4, "rollout_n": worker, "validate": number % 4 == 3}
    sample = number if number % 2 else f"样本-{number}"
    with rolltrace.rollout_trace_attr(sample, difficulty="难", **where) as trajectory:
        agent(f"问题 {number}", bad=number % 3 == 0)
    trajectory.reward(number / 10, terms={"format": 1.0})
    return trajectory.id


def main() -> None:
    store, project, backend, worker, count = sys.argv[1:6]
    rolltrace.init(project, "试验 1", ["rolltrace", backend], store=store, limits={"segment_bytes": "64KiB"})
    for number in (at for at, _ in enumerate(sys.stdin)) if count == "asked" else range(int(count)):
        os.write(1, f"{rollout(int(worker), number)}\n".encode())
    vendors = {"mlflow", "trackio", "weave", "opentelemetry", "pyarrow", "duckdb"} & set(sys.modules)
    assert not vendors, f"the rollout's process loads {vendors}"


if __name__ == "__main__":
    main()
