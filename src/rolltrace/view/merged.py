"""What several stores say together: status, experiments, what runs now, where letters lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rolltrace.query import Pulse

Fields = dict[str, Any]


def merged_status(each: Sequence[Fields]) -> Fields:
    """The status of all; of one it is its own."""
    if len(each) == 1:
        return each[0]
    refusals = [status["read_only"] for status in each]
    return {
        **each[0],
        "store_name": ", ".join(status["store_name"] for status in each),
        **{name: sum(status[name] for status in each) for name in ("experiments", "running", "lost")},
        "recording": any(status["recording"] for status in each),
        "incomplete": [file for status in each for file in status["incomplete"]],
        "read_only": next((why for why in refusals if why), None) if all(refusals) else None,
    }


def merged_pulse(each: Sequence[Pulse]) -> Pulse:
    """What runs in all of them, the oldest first."""
    workers = [worker for pulse in each for worker in pulse.workers]
    calls = sum(worker["tool_calls"] for worker in workers)
    return replace(
        each[0],
        rows=sorted((row for pulse in each for row in pulse.rows), key=lambda row: row["start_ns"]),
        workers=workers,
        trajectories_per_min=sum(pulse.trajectories_per_min for pulse in each),
        tokens_per_min=sum(pulse.tokens_per_min for pulse in each),
        snapshot_age_s=max((age for pulse in each if (age := pulse.snapshot_age_s) is not None), default=None),
        tool_error_rate=sum(worker["tool_errors"] for worker in workers) / calls if calls else None,
    )
