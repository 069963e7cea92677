"""A worker process that traces rollouts; each line on stdout is the id of a trajectory that was left.

    python rollouts.py STORE PROJECT FIRST COUNT [BACKEND [hang]]

A count of 0 goes on until the process is killed; `hang` ends inside an op that never ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
async def generate(messages: list[dict[str, str]], prompt_ids: list[int]) -> dict[str, Any]:
    await asyncio.sleep(0)
    reply = f"第 {len(messages)} 轮回答 🎉"
    return {
        "text": reply,
        "token_ids": [ord(letter) for letter in reply],
        "logprobs": [-0.25, float("-inf"), *[-0.5] * (len(reply) - 2)],
        "finish_reason": "stop",
        "policy_version": 7,
    }


@rolltrace.rollout_trace_op(kind="tool")
async def search(query: str) -> str:
    if "错误" in query:
        raise LookupError(f"没有这一页: {query}")
    return json.dumps({"hits": [query], "note": "a text that is JSON, and stays text"})


@rolltrace.rollout_trace_op(kind="env")
async def wait_for_ever() -> None:
    await asyncio.Event().wait()


@rolltrace.rollout_trace_op
async def agent(number: int) -> str:
    messages = [{"role": "system", "content": "你是助手"}, {"role": "user", "content": f"问题 {number}"}]
    for turn in range(3):
        answer = await generate(messages, list(range(100 * (turn + 1))))
        messages = [*messages, {"role": "assistant", "content": answer["text"]}]
        try:
            messages.append(
                {"role": "tool", "content": await search("错误" if turn == number % 3 else f"网页 {number}")}
            )
        except LookupError as fault:
            messages.append({"role": "tool", "content": str(fault)})
    if number % 4 == 1:
        task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    return messages[-1]["content"]


async def rollout(number: int) -> None:
    where = {"step": number // 4, "sample_index": f"样本-{number // 2}", "rollout_n": number % 2}
    async with rolltrace.rollout_trace_attr(**where, validate=number % 5 == 0, difficulty="困难") as trajectory:
        trajectory.note("开始", number=number)
        await agent(number)
        trajectory.reward(number / 8, terms={"format": 1.0, "correct": number / 4})
        if number % 7 == 6:
            raise RuntimeError("out of context")
    if number % 3 == 0:
        trajectory.reward(number / 8 + 100, terms={"late": 1.0})
    os.write(1, f"{trajectory.id}\n".encode())


def main() -> None:
    store, project, first, count, *others = sys.argv[1:]
    rolltrace.init(project, "exp", ["rolltrace", *others[:1]], store=store, limits={"segment_bytes": "64KiB"})
    numbers = range(int(first), int(first) + int(count)) if int(count) else itertools.count(int(first))
    for number in numbers:
        try:
            asyncio.run(rollout(number))
        except RuntimeError:
            pass
    if others[1:] == ["hang"]:
        with rolltrace.rollout_trace_attr(step=99):
            asyncio.run(wait_for_ever())


if __name__ == "__main__":
    main()
