"""The words of a record: coordinates, op kinds, statuses, each once.

Everything that lists them (context strings, filters, columns) derives the list from here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from rolltrace.settings import MAX_DEPTH as MAX_DEPTH

OpKind = Literal["llm", "aux_llm", "tool", "env", "reward", "other"]
OP_KINDS: tuple[OpKind, ...] = ("llm", "aux_llm", "tool", "env", "reward", "other")
"""`llm` is a call of the policy: a turn, with its tokens and its part of the conversation. `aux_llm` is a call of
another model (a grader, a simulated user): it keeps messages, tokens and usage of its own, and counts as none of
these."""
MODEL_KINDS: frozenset[str] = frozenset({"llm", "aux_llm"})
"""The kinds of ops in which a model answers."""

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
    """A coordinate as a plain int or str, from what a trainer's batch holds (NumPy and torch scalars too)."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:  # as most are: many trajectories may begin at once
        return value
    if value is None:
        return None
    if isinstance(value, str):
        return clean_text(value)
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if hasattr(value, "__index__"):
        number = int(value)
        return number if -(1 << 63) <= number < 1 << 63 else str(number)  # a uuid as a number
    return clean_text(str(value))


def whole(value: Any) -> int | None:
    """A coordinate that must be a whole number.

    Raises:
        ValueError: it is none, or one of more than 64 bits, which no column can hold.
    """
    plain = coordinate(value)
    if plain is None or type(plain) is int:
        return plain
    number = int(plain)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} does not fit into 64 bits")
    return number


def clean_text(value: str) -> str:
    """The text as a plain str that UTF-8 can hold; lone surrogates are written out as escapes."""
    text = str.__str__(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
