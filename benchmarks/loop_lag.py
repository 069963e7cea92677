"""How late an event loop gets with ten thousand rollouts on it: `python -m benchmarks.loop_lag [--quick]`.

All rollouts begin in the same turn of the loop, and later wake up in crowds. So the lag is the sum of what each of them
does in its turn: with tracing, ten thousand beginnings of a trajectory and of an op. Nothing waits for anything; the
figure to look at is what one rollout adds.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.lag import Lag, _tick, summary
from benchmarks.table import Row, at_most, render
from benchmarks.tracers import Rolltrace, Tracer

TURNS = 3
ROUNDS = 3
MESSAGES = [{"role": "user", "content": "hello world " * 20} for _ in range(4)]


def lag(tracer: Tracer, at_once: int) -> tuple[Lag, float]:
    """The lag over the whole run, and the CPU seconds it took."""

    @tracer.op(name="generate", kind="llm")
    async def generate(prompt_ids: list[int], messages: list[dict[str, str]]) -> dict[str, object]:
        await asyncio.sleep(0.5 + prompt_ids[0] % 100 / 100)
        return {"response_ids": prompt_ids[:100], "text": "x" * 300}

    @tracer.op(name="search", kind="tool")
    async def search(query: str) -> str:
        await asyncio.sleep(0.2 + len(query) % 50 / 100)
        return query

    async def rollout(number: int) -> None:
        with tracer.trajectory(sample_index=number // 8, rollout_n=number % 8):
            for _ in range(TURNS):
                await generate([number, *range(300)], MESSAGES)
                await search("x" * (number % 50))

    async def run() -> list[float]:
        lateness: list[float] = []
        ticker = asyncio.create_task(_tick(lateness))
        await asyncio.gather(*map(rollout, range(at_once)))
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker
        return lateness

    gc.collect()
    with tracer.running():
        begin = time.process_time()
        lateness = asyncio.run(run())
        return summary(lateness), time.process_time() - begin


def rows(at_once: int, rounds: int) -> Iterator[Row]:
    section = f"{at_once:,} rollouts at once, {2 * TURNS} ops each"
    tracers: dict[str, Tracer] = {"off": Rolltrace(on=False), "on": Rolltrace()}
    best = {
        name: min((lag(tracer, at_once) for _ in range(rounds)), key=lambda each: each[1])
        for name, tracer in tracers.items()
    }
    for name, (late, _) in best.items():
        yield Row(section, f"{name}, p50", late.p50_ms, "ms")
        yield Row(section, f"{name}, p99", late.p99_ms, "ms")
        yield Row(section, f"{name}, max", late.max_ms, "ms")
    added = best["on"][1] - best["off"][1]
    yield Row(section, "CPU added for an op", added / at_once / (2 * TURNS) * 1e6, "us", at_most(40))
    yield Row(section, "CPU, on / off", best["on"][1] / best["off"][1], "x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    quick = parser.parse_args().quick
    sys.stdout.write("\n".join(render(rows(200 if quick else 10_000, 1 if quick else ROUNDS))) + "\n")


if __name__ == "__main__":
    main()
