"""Values as vendors take them: strict JSON, times, one word."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

from rolltrace.record import clean_text, to_json

_LONG_NUMBER = re.compile(r"\d{19}")
"""Perhaps one over 64 bits."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def strict_json(value: Any) -> str:
    """JSON that every reader takes: what it cannot hold is written as in the store, `{"$float": "nan"}`.

    One integer over 64 bits, or one NaN, and a vendor's server could not read the whole trace any more.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        is_strict = _LONG_NUMBER.search(text) is None
    except (ValueError, TypeError, RecursionError):  # NaN, an integer too long for decimals, hundreds of levels
        is_strict = False
    if not is_strict:
        text = json.dumps(_signed(to_json(value)), ensure_ascii=False)
    return clean_text(text)


def _signed(value: Any) -> Any:
    """The store also holds integers of 64 bits without a sign; vendors do not."""
    if isinstance(value, dict):
        return {key: _signed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_signed(item) for item in value]
    return {"$int": hex(value)} if isinstance(value, int) and value >= 1 << 63 else value


def iso_time(time_ns: int) -> str:
    """A time as text, to the microsecond, UTC."""
    return (_EPOCH + timedelta(microseconds=time_ns // 1000)).isoformat()


def word(value: Any) -> str:
    """A coordinate as a tag: `true` and `false` as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)
