"""Ids and short values as MLflow holds them."""

from __future__ import annotations

import math
from typing import Any

from rolltrace.backends.values import strict_json
from rolltrace.record import clean_text


def trace_id_of(trajectory_id: str) -> str:
    """MLflow's id of the trace: ours, 32 hexadecimal digits, with its prefix."""
    return f"tr-{trajectory_id}"


def plain(value: Any) -> Any:
    """A value as a tag, an event or a feedback holds it: text, a number, true or false; JSON for all else."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int) else strict_json(value)


def cut(text: str, most: int) -> str:
    """The text, or as much of it as there is room for."""
    text = clean_text(text).replace("\0", "\ufffd")  # PostgreSQL takes none
    return text if len(text) <= most else text[: most - 3] + "..."
