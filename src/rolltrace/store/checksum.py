"""A checksum over a whole part. Parquet has them for pages only: a flipped byte in the footer would go unseen.

It stands between the data and the footer, where no reader looks: offsets are counted from the start of the file, and
the footer is found from its end.
"""

from __future__ import annotations

from pathlib import Path

import xxhash

_MARK = b"RTSUM\x01\0\0"
_SIZE = len(_MARK) + 16


def add_checksum(part: Path) -> None:
    """Put the checksum into a part that was just written."""
    data = part.read_bytes()
    footer = _footer(data)
    part.write_bytes(data[:footer] + _MARK + xxhash.xxh3_128_digest(data) + data[footer:])


def checksum_problem(part: Path) -> str | None:
    """What is wrong with the bytes of a part; None if they are those that were written."""
    data = part.read_bytes()
    footer = _footer(data)
    found = data[max(0, footer - _SIZE) : footer] if footer > 0 else b""
    if not found.startswith(_MARK):
        return "its checksum is not where it should be: the file is cut or damaged at its end"
    if xxhash.xxh3_128_digest(data[: footer - _SIZE] + data[footer:]) != found[len(_MARK) :]:
        return "its checksum does not match: the file is damaged"
    return None


def _footer(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")
