"""The words of a record: coordinates, op kinds, statuses, each once.

Everything that lists them (context strings, filters, columns) derives the list from here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

OpKind = Literal["llm", "tool", "env", "reward", "other"]
OP_KINDS: tuple[OpKind, ...] = ("llm", "tool", "env", "reward", "other")

Status = Literal["ok", "error", "cancelled"]
"""How an op or trajectory ended. Readers add `running` and `interrupted` (its process is gone)."""

SampleIndex = int | str


class Coordinates(NamedTuple):
    """Where a trajectory stands in the training run."""

    step: int | None = None
    """Training step."""
    sample_index: SampleIndex | None = None
    """Which dataset sample: an int, or a string such as a uuid."""
    rollout_n: int | None = None
    """Which of the n rollouts of that sample."""
    validate: bool = False
    """A validation rollout, not a training one."""


def coordinate(value: Any) -> SampleIndex | None:
    """A coordinate as a plain int or str, from whatever a trainer's batch holds (NumPy and torch scalars too)."""
    if value is None or type(value) is int or type(value) is str:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "item"):
        value = value.item()
    if hasattr(value, "__index__"):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value)
