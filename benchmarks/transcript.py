"""What a transcript costs the drainer, per model call: `python -m benchmarks.transcript [--turns N]`.

Conversations of replies and tool results of 500 characters each, as they grow and as harnesses rewrite them. Printed is
the CPU time of one model call at some turns (the median of the last nine), and how large the saved state is at the end.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from rolltrace.messages import EndedOp, Transcript
from rolltrace.record import Snapshotter

Messages = list[dict[str, Any]]
_CHARS = 500


def _strip(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "reasoning_content"}


def _elide(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": "[elided]"} if message["role"] == "tool" else message


VIEWS: dict[str, Callable[[Messages, int], Messages]] = {
    "grows": lambda history, turn: [*map(_strip, history)],
    "last reasoning only": lambda history, turn: [*map(_strip, history[:-2]), *history[-2:]],
    "old results elided": lambda history, turn: [*map(_elide, history[:-2]), *history[-2:]],
    "window of 40": lambda history, turn: [history[0], *history[1:][-40:]],
    "system changes": lambda history, turn: [{"role": "system", "content": f"Turn {turn}."}, *history[1:]],
}
"""What a harness gives to the model, of all that was said."""


def measure(view: Callable[[Messages, int], Messages], turns: int) -> tuple[dict[int, float], int]:
    """Microseconds of a model call by turn, and the bytes of the state."""
    transcript, take = Transcript(), Snapshotter(max_bytes=1 << 30).take
    history: Messages = [{"role": "system", "content": "s" * 2000}, {"role": "user", "content": "q" * _CHARS}]
    costs: list[float] = []
    for turn in range(turns):
        call = {"id": f"c{turn}", "function": {"name": "search", "arguments": json.dumps({"query": turn})}}
        reply: dict[str, Any] = {
            "role": "assistant",
            "content": f"{turn} " + "r" * _CHARS,
            "reasoning_content": "hm " * 100,
        }
        reply["tool_calls"] = [call]
        inputs, outputs = Raw(take({"messages": view(history, turn)})), Raw(take({"choices": [{"message": reply}]}))
        model = EndedOp(
            op_id=2 * turn + 1, kind="llm", start_ns=4 * turn, end_ns=4 * turn + 1, inputs=inputs, outputs=outputs
        )
        start = time.process_time()
        transcript.op_ended(model)
        costs.append((time.process_time() - start) * 1e6)
        found = f"{turn} " + "f" * _CHARS
        tool = EndedOp(op_id=2 * turn + 2, kind="tool", name="search", start_ns=4 * turn + 2, end_ns=4 * turn + 3)
        tool.inputs, tool.outputs = {"query": turn}, found
        transcript.op_ended(tool)
        history += [reply, {"role": "tool", "tool_call_id": f"c{turn}", "content": found}]
    shown = [turn for turn in (10, 100, 1000) if turn <= turns]
    return {turn: statistics.median(costs[max(0, turn - 9) : turn]) for turn in shown}, len(transcript.save())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    turns = parser.parse_args().turns
    for name, view in VIEWS.items():
        costs, size = measure(view, turns)
        times = ", ".join(f"turn {turn}: {cost:,.0f} us" for turn, cost in costs.items())
        print(f"{name:20} {times}; state {size:,} bytes")


if __name__ == "__main__":
    main()
