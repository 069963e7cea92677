"""Chat-format JSON lines for supervised fine-tuning: `{"messages": [...], "reward": 1.0, "trajectory_id": ...}`.

Left out, and counted: trajectories that still run, those in which the model said nothing, and those of which payloads
were pruned, because half a conversation is not what happened.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TextIO

from rolltrace.exchange.selection import Exported, Selection
from rolltrace.exchange.text import json_text
from rolltrace.query import Trajectory

PLACE = ("project", "experiment", "run", "step", "sample_index", "rollout_n", "validate")


def write(selection: Selection, out: TextIO) -> Exported:
    """Write a line per trajectory that has a conversation."""
    count, skipped = 0, Counter[str]()
    for line in selection.each(lambda full: _line(full.trajectory, skipped)):
        if line is not None:
            out.write(line + "\n")
            count += 1
    return Exported(count, skipped)


def _line(trajectory: Trajectory, skipped: Counter[str]) -> str | None:
    messages = trajectory.conversation
    if trajectory.status == "running":
        skipped["still running"] += 1
        return None
    if trajectory.pruned is not None:
        skipped[str(trajectory.pruned)] += 1
        return None
    if not any(message.get("role") == "assistant" for message in messages):
        skipped["no reply of the model"] += 1
        return None
    where = {name: getattr(trajectory, name) for name in ("trajectory_id", *PLACE)}
    return json_text({"messages": messages, "reward": finite(trajectory.reward), **where})


def finite(value: float | None) -> Any:
    """The number, or None: loaders of training data want one type per column."""
    return value if value is not None and math.isfinite(value) else None
