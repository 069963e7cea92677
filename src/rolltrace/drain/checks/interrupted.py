"""interrupted: its process died before the op or the trajectory ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts


def op_interrupted(op: OpFacts) -> Finding | None:
    return trajectory_interrupted(op.fields)


def trajectory_interrupted(fields: Mapping[str, Any]) -> Finding | None:
    return Finding("interrupted") if fields["status"] == "interrupted" else None
