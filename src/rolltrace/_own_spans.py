"""What the backend `otlp` and `rolltrace collect` agree on, so that nothing is lost between the two."""

from __future__ import annotations

import xxhash

from rolltrace._protobuf import bytes_field

_ROOT_BIT, _SCORE_BIT = 1 << 63, 1 << 62
"""An op's id is below both, so that no root and no score has the id of an op."""
MARK_FIELD, MARK = 1000, b"rolltrace"
OUR_MARK = bytes_field(MARK_FIELD, MARK)
"""In the answers of `rolltrace collect`: a field that others skip."""


def root_id(trajectory_id: str) -> bytes:
    """The span id of a trajectory's root."""
    return (int(trajectory_id[:16], 16) | _ROOT_BIT).to_bytes(8, "big")


def score_id(trajectory_id: str, name: str, time_ns: int) -> bytes:
    """The span id of a score that came when its trajectory was over."""
    digest = xxhash.xxh3_64_intdigest(f"{trajectory_id} {name} {time_ns}".encode("utf-8", "replace"))
    return ((digest & (_SCORE_BIT - 1)) | _SCORE_BIT).to_bytes(8, "big")
