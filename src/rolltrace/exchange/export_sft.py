"""Chat-format JSON lines for supervised fine-tuning: `{"messages": [...], "reward": 1.0, "trajectory_id": ...}`.

Left out, and counted: trajectories that still run, and those in which the model said nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TextIO

from rolltrace.exchange.jsontext import json_text
from rolltrace.exchange.selection import Exported, Selection

PLACE = ("project", "experiment", "step", "sample_index", "rollout_n", "validate")


def write(selection: Selection, out: TextIO) -> Exported:
    """Write a line per trajectory that has a conversation."""
    count, skipped = 0, Counter[str]()
    for full in selection.read():
        trajectory = full.trajectory
        messages = trajectory.conversation
        if trajectory.status == "running":
            skipped["still running"] += 1
        elif not any(message.get("role") == "assistant" for message in messages):
            skipped["no reply of the model"] += 1
        else:
            where = {name: getattr(trajectory, name) for name in ("trajectory_id", *PLACE)}
            out.write(json_text({"messages": messages, "reward": finite(trajectory.reward), **where}) + "\n")
            count += 1
    return Exported(count, skipped)


def finite(value: float | None) -> Any:
    """The number, or None: loaders of training data want one type per column."""
    return value if value is not None and math.isfinite(value) else None
