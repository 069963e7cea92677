"""Values as MLflow holds them: JSON that the browser can read too, and short texts."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from rolltrace.record import clean_text

_LONG_NUMBER = re.compile(r"\d{19}")
"""Perhaps one over 64 bits."""


def trace_id_of(trajectory_id: str) -> str:
    """MLflow's id of the trace: ours, 32 hexadecimal digits, with its prefix."""
    return f"tr-{trajectory_id}"


def json_of(value: Any) -> str:
    """Strict JSON; what it or MLflow cannot hold is written as in the store: `{"$float": "nan"}`, `{"$int": "0x..."}`.

    One integer over 64 bits, and MLflow's server could not read the whole trace any more.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # NaN, or an integer too long for decimals
        text = json.dumps(_strict(value), ensure_ascii=False)
    if _LONG_NUMBER.search(text):
        text = json.dumps(_strict(value), ensure_ascii=False)
    return clean_text(text)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return {"$int": hex(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    return value


def plain(value: Any) -> Any:
    """A value as a tag, an event or a feedback holds it: text, a number, true or false; JSON for all else."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int) else json_of(value)


def cut(text: str, most: int) -> str:
    """The text, or as much of it as there is room for."""
    text = clean_text(text).replace("\0", "\ufffd")  # PostgreSQL takes none
    return text if len(text) <= most else text[: most - 3] + "..."
