"""Server-sent events out of the bytes of a stream, in pieces of any size."""

from __future__ import annotations

from typing import Any

import msgspec

_END = b"[DONE]"
_LAST = ("message_stop", "response.completed", "response.incomplete", "response.failed")
_MOST_BYTES = 64 << 20
"""An event that is longer is not waited for."""


class Events:
    """What was fed and is no whole event yet."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_done = False
        """The event that comes last was seen."""

    def feed(self, chunk: bytes) -> list[Any]:
        """The events that are whole now: JSON as values, anything else as text."""
        data = self._rest + chunk
        if b"\n\n" not in data and b"\r\n\r\n" not in data and b"\r\r" not in data:
            self._rest = data if len(data) <= _MOST_BYTES else b""
            return []
        # A CR may be the first half of a line's end.
        held = b"\r" if data.endswith(b"\r") else b""
        blocks = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
        self._rest = blocks.pop() + held
        return [event for block in blocks if (event := self._event(block)) is not None]

    def rest(self) -> list[Any]:
        """What came without an end, if it can be read."""
        block, self._rest = self._rest, b""
        event = self._event(block.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return [event] if isinstance(event, dict) else []

    def _event(self, block: bytes) -> Any:
        """What an event holds; None if it holds nothing: a comment, a mark of the end."""
        data = b"\n".join(line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
        if not data.strip() or data.strip() == _END:
            self.is_done |= bool(data)
            return None
        value = value_of(data)
        self.is_done |= isinstance(value, dict) and value.get("type") in _LAST
        return value


def value_of(body: bytes) -> Any:
    """JSON as a value, anything else as text."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")
