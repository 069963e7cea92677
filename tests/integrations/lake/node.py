"""Rollouts of a host: python -m tests.integrations.lake.node STORE EXPERIMENT FIRST STEPS SAMPLES"""

from __future__ import annotations

import random
import sys

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt: str, turn: int) -> dict[str, object]:
    length = 3 + turn
    return {
        "text": f"{prompt} {turn}",
        "prompt_ids": list(range(length)),
        "response_ids": list(range(length)),
        "logprobs": [-0.5] * length,
        "response_mask": [1] * length,
    }


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    if query.endswith("7"):
        raise ValueError("no such page")
    return f"found {query}"


def main(store: str, experiment: str, first: int, steps: int, samples: int) -> None:
    random.seed(f"{experiment} {first}")
    rolltrace.init("lake", experiment, store=store, drain="off", quiet=True, segment_bytes="64KiB")
    late = []
    for step in range(first, first + steps):
        for sample in range(samples):
            for rollout in range(2):
                with rolltrace.rollout_trace_attr(
                    sample_index=sample, step=step, rollout_n=rollout, name="agent"
                ) as trajectory:
                    for turn in range(3):
                        generate(f"question {sample}", turn)
                        try:
                            search(f"{sample}{turn}{rollout}7"[: 3 + (sample == 1)])
                        except ValueError:
                            pass
                    trajectory.reward(random.random())
                    if rollout:
                        late.append(trajectory.trajectory_id)
    for trajectory_id in late[::3]:
        rolltrace.score(trajectory_id, "judge", 0.25)  # by id alone: it lies in no step
    rolltrace.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
