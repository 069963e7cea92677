"""A store written by version 1 of the format is opened by every later version, to the last value."""

from __future__ import annotations

import math
from pathlib import Path

import rolltrace

GOLDEN = Path(__file__).parent.parent / "golden" / "store-v1"


def test_the_first_store_format_is_still_read() -> None:
    store = rolltrace.open(GOLDEN)
    (row,) = store.trajectories().rows()
    assert (row["project"], row["experiment"], row["step"], row["sample_index"]) == ("golden", "v1", 3, "sample")
    assert (row["turns"], row["tool_calls"], row["tool_errors"], row["reward"]) == (2, 1, 1, 0.5)
    trajectory = store.trajectory(row["trajectory_id"])
    first, second, broken = trajectory.ops
    assert first.inputs == {"prompt_ids": [1, 2, 3], "image": None}
    assert first.outputs == {"token_ids": [5, 6, 7], "logprobs": [-0.25, -1.5, -math.inf], "text": "你好 🎉"}
    assert second.inputs["prompt_ids"] == [0, 1, 2, 3]
    assert (broken.status, broken.error) == ("error", "ValueError: no luck")
    (loss,) = store.losses().rows()
    assert (loss["reason"], loss["step"], loss["count"]) == ("sample_limit", 3, 1)
    assert store.damaged(thorough=True) == []
