"""Values as vendors take them: strict JSON, plain values, short texts, times, and the address of our viewer."""

from __future__ import annotations

import json
import math
import os
import re
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rolltrace.record import clean_text, to_json

VIEW_URL = "ROLLTRACE_VIEW_URL"
"""The variable that says where the viewer runs."""
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


def without_password(url: str) -> str:
    """An address as it can be shown."""
    return re.sub(r"//[^/@]*@", "//", url)


def view_link(trajectory_id: str) -> str | None:
    """The page of a trajectory; None if nobody said where the viewer runs, or what was said is no web address.

    It is the same whichever store has the trajectory, and however many the viewer shows.
    """
    base = web_address(os.environ.get(VIEW_URL, ""))
    return None if base is None else f"{base}/t/{trajectory_id}"


def web_address(text: str) -> str | None:
    """An address of http or https without credentials, query and final slash; None if it is none."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, name if port is None else f"{name}:{port}", parts.path.rstrip("/"), "", ""))
