"""Made the journals in `journal-v1/`, once, and by `store drain` the tables in `store-v2/`. Both are kept as they
are: every later version must read them."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import numpy as np

import rolltrace


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], image: object = None) -> dict[str, object]:
    return {"token_ids": [5, 6, 7], "logprobs": [-0.25, -1.5, float("-inf")], "text": "你好 🎉"}


@rolltrace.rollout_trace_op(kind="tool", name="broken")
def broken() -> None:
    raise ValueError("no luck")


def main(store: Path) -> None:
    rolltrace.init("golden", "v1", "rolltrace", store=store, drain="off", max_samples_per_step_per_worker=1)
    with rolltrace.rollout_trace_attr(sample_index="sample", step=3, rollout_n=1, difficulty="hard") as trajectory:
        generate([1, 2, 3])
        generate(np.arange(4), object())
        try:
            broken()
        except ValueError:
            pass
        trajectory.reward(0.5, terms={"format": 0.5})
        when = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
        trajectory.note("odd values", big=2**70, text="\ud800", when=when)
    with rolltrace.rollout_trace_attr(sample_index="too many", step=3):
        pass
    rolltrace.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
