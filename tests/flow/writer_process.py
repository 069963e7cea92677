"""A process that traces until it is killed. Run by the crash tests; each line on stdout names an op that returned.

The line is written after the traced call has returned, so whatever was printed must be in the journal.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
def generate(number: int, prompt_ids: list[int]) -> dict[str, object]:
    return {"number": number, "token_ids": prompt_ids[::-1], "text": "回答 🎉" * (number % 50)}


def payload(number: int) -> list[int]:
    """From a few bytes to more than a small segment, different for each number."""
    return list(range(number, number + (number * 7919) % 3000))


def say(number: int) -> None:
    os.write(1, b"%d\n" % number)  # in one piece, whoever else writes


def run(first: int) -> None:
    number = first
    while True:
        with rolltrace.rollout_trace_attr(sample_index=number, step=number // 10, rollout_n=0):
            generate(number, payload(number))
        say(number)
        number += 1


async def run_async(first: int) -> None:
    @rolltrace.rollout_trace_op
    async def turn(number: int) -> int:
        await asyncio.sleep(0)
        generate(number, payload(number))
        return number

    async def rollout(number: int) -> None:
        while True:
            with rolltrace.rollout_trace_attr(sample_index=number, step=0):
                await turn(number)
            say(number)
            number += 1

    await asyncio.gather(*(rollout(first + k * 100_000) for k in range(8)))


def main() -> None:
    store, how = sys.argv[1:3]
    rolltrace.init("crash", how, "rolltrace", store=store, drain="off", limits={"segment_bytes": "64KiB"})
    if how == "plain":
        run(0)
    elif how == "threads":
        for k in range(4):
            threading.Thread(target=run, args=(k * 1_000_000,), daemon=True).start()
        threading.Event().wait()
    elif how == "forks":
        for k in range(1, 4):
            if os.fork() == 0:
                run(k * 1_000_000)
        run(0)
    elif how == "asyncio":
        asyncio.run(run_async(0))


if __name__ == "__main__":
    main()
