"""Server-sent events out of the bytes of a stream, in pieces of any size."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_END = b"[DONE]"
_LAST = ("message_stop", "response.completed", "response.incomplete", "response.failed")
MAX_EVENT_BYTES = 64 << 20
"""An event that is longer is not waited for, and not recorded."""
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
"""The end of an event: the end of a line, and an empty line."""
_MAX_END_LENGTH = 4


class EventBlocks:
    """Bytes of a stream, cut where events end. Each byte is looked at once, however many pieces an event comes in."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are whole now, with the empty line that ends each of them; one that is too long, in parts."""
        rest, begin = self._rest, 0
        rest += chunk
        blocks = []
        for end in _BLANK_LINE.finditer(rest, max(0, self._searched - _MAX_END_LENGTH)):
            blocks.append(bytes(rest[begin : end.end()]))
            begin = end.end()
        self._rest = rest[begin:] if begin else rest  # the pattern holds on to the old one
        self._searched = len(self._rest)
        if self._searched > MAX_EVENT_BYTES:
            blocks.append(self.take_rest())
        return blocks

    def take_rest(self) -> bytes:
        """What came without an end."""
        rest, self._rest, self._searched = bytes(self._rest), bytearray(), 0
        return rest


class Events:
    """What was fed and is no whole event yet."""

    def __init__(self) -> None:
        self._blocks = EventBlocks()
        self.is_done = False
        """The event that comes last was seen."""
        self.too_long = 0
        """How many events were too long to be kept."""

    def feed(self, chunk: bytes) -> list[Any]:
        """The events that are whole now: JSON as values, anything else as text."""
        return [event for block in self._blocks.feed(chunk) if (event := self._event(block)) is not None]

    def rest(self) -> list[Any]:
        """What came without an end, if it can be read."""
        event = self._event(self._blocks.take_rest())
        return [event] if isinstance(event, dict) else []

    def _event(self, block: bytes) -> Any:
        """What an event holds; None if it holds nothing: a comment, a mark of the end."""
        if len(block) > MAX_EVENT_BYTES:
            self.too_long += 1
            return None
        data = b"\n".join(line[5:].removeprefix(b" ") for line in block.splitlines() if line.startswith(b"data:"))
        if not data.strip() or data.strip() == _END:
            self.is_done |= bool(data)
            return None
        value = value_of(data)
        self.is_done |= isinstance(value, dict) and value.get("type") in _LAST
        return value


def value_of(body: bytes | bytearray) -> Any:
    """JSON as a value, anything else as text."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")
