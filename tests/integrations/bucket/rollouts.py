"""Rollouts of one host: python -m tests.integrations.bucket.rollouts STORE EXPERIMENT HOST [SECONDS]

Step 0 and 1 of three samples with two rollouts each; with SECONDS, again and again for so long, 25 times a step. What
it recorded is printed as JSON: how many trajectories, and which modules that no rollout process needs were loaded.
"""

from __future__ import annotations

import json
import sys
import time

import rolltrace

STEPS, SAMPLES, ROLLOUTS, TURNS = 2, 3, 2, 2
ROUNDS_PER_STEP = 25
NOT_NEEDED = ("deltalake", "pyarrow", "duckdb", "numpy")


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, str]], turn: int) -> dict[str, object]:
    ids = list(range(8 + turn))
    return {
        "text": f"answer {turn}", "prompt_ids": ids, "response_ids": ids, "logprobs": [-0.5] * len(ids),
        "response_mask": [1] * len(ids),
    }  # fmt: skip


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    return f"found {query}"


def roll_out(step: int, sample: str, rollout: int) -> None:
    with rolltrace.rollout_trace_attr(sample_index=sample, step=step, rollout_n=rollout) as trajectory:
        messages = [{"role": "user", "content": f"question {sample}"}]
        for turn in range(TURNS):
            reply = generate(messages, turn)
            messages.append({"role": "assistant", "content": str(reply["text"])})
            messages.append({"role": "tool", "content": search(f"{sample}-{turn}")})
        trajectory.reward(rollout / 2, terms={"correct": float(rollout)})


def main(store: str, experiment: str, host: str, seconds: float = 0.0) -> None:
    rolltrace.init("bucket", experiment, store=store, quiet=True, limits={"pass_term": "correct"})
    end, done, count = time.monotonic() + seconds, 0, 0
    while done < STEPS or time.monotonic() < end:
        for sample in range(SAMPLES):
            for rollout in range(ROLLOUTS):
                roll_out(done // ROUNDS_PER_STEP if seconds else done, f"{host}-{sample}", rollout)
                count += 1
        done += 1
        time.sleep(min(0.05, seconds))
    loaded = [name for name in NOT_NEEDED if name in sys.modules]
    rolltrace.shutdown()
    sys.stdout.write(json.dumps({"trajectories": count, "loaded": loaded, "losses": rolltrace.stats().losses}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(float, sys.argv[4:]))
