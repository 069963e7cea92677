"""Counts, sizes and times as people read and write them, in every table, message and setting."""

from __future__ import annotations

import re
import time
from typing import Any

from rolltrace.errors import ConfigError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def counted(count: int, what: str) -> str:
    """`1 part`, `2 parts`, `2 trajectories`."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count} {what if count == 1 else many}"


def duration(seconds: float | None) -> str:
    """A length of time for people: 12ms, 3.4s, 2m05s, 3h07m, 4d02h."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f}ms" if seconds > 0.00095 or seconds <= 0 else f"{seconds * 1e6:.0f}us"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02d}{smaller}"
    return f"{whole // 60}m{whole % 60:02d}s"


def ago(time_ns: int | None) -> str:
    """How long ago: now, 5s ago, 2m05s ago."""
    if time_ns is None:
        return ""
    seconds = (time.time_ns() - time_ns) / 1e9
    return "now" if seconds < 1 else f"{int(seconds)}s ago" if seconds < 60 else f"{duration(seconds)} ago"


def size(count: int) -> str:
    """Bytes for people: 512 B, 1.5 kB, 3.2 GB."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"


def age_sec(name: str, text: str, wanted: str = "an age such as 30m, 12h, 7d or 8w") -> float:
    """The seconds of an age that somebody wrote; `name` is the option or setting, for the error."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is None:
        raise ConfigError(f"{name} must be {wanted}, not {text!r}")
    return float(match[1]) * _SECONDS[match[2]]


def size_of(name: str, value: Any) -> int:
    """The bytes of a size that somebody wrote."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(i?b)?\s*", value.lower()) if isinstance(value, str) else None
    if match is not None:
        return int(match[1]) << _SHIFTS[match[2]]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{name} must be a size such as 8GiB, 64MiB or a number of bytes, not {value!r}")
    return value
