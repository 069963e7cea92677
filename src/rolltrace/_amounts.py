"""Counts, sizes and times as people read them, in every table and message."""

from __future__ import annotations

import time


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
