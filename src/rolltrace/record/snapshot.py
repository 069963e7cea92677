"""A user value as it is now, in bytes: the encoding is the snapshot.

The fast path is one call of msgspec that runs no Python code, so no other thread can change the value meanwhile:
msgspec does not survive a list that shrinks under it. A value with objects that need converting is therefore first
copied, containers only. What msgspec refuses (integers over 64 bits, lone surrogates, cycles), what takes more than a
megabyte and what is over a limit goes through a `Walk`. Time and memory are bounded on every way:
docs/design/001-capture.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rolltrace._guard import pass_on_signals
from rolltrace.record.bounded import FEW, NUMBERS, SHORT, BoundedEncoder, TooLong, has_long_text
from rolltrace.record.convert import BlobKeeper, Converters, opaque, private
from rolltrace.record.schema import MAX_DEPTH
from rolltrace.record.walk import Walk, has_names

_MAX_AT_ONCE = 1 << 20
"""What is encoded in one call. More is put together from parts."""


def _forget(name: str, info: dict[str, Any], data: bytes) -> None:
    """The keeper of a snapshotter that nobody listens to."""


class Snapshotter:
    """Takes snapshots under one set of limits. Safe to share between threads."""

    def __init__(
        self,
        *,
        max_bytes: int = 32 << 20,
        max_items: int | None = None,
        max_depth: int = MAX_DEPTH,
        max_array_bytes: int = 1 << 20,
        keep_blob: BlobKeeper = _forget,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._max_depth = min(max_depth, MAX_DEPTH)
        self._convert = Converters(max_array_bytes, max_bytes, keep_blob)
        at_once = min(_MAX_AT_ONCE, max_bytes)
        self._encode_short = msgspec.msgpack.Encoder().encode
        self._encode_plain = BoundedEncoder(at_once)
        self._encode = BoundedEncoder(at_once, self._convert)
        # Deeper than MAX_DEPTH is cut by whoever reads: ordinary values need no look at their depth.
        self._always_walk = max_items is not None or max_depth < MAX_DEPTH
        self._short = min(SHORT, max_bytes // (2 * FEW))
        self._cuts = 0

    @property
    def cuts(self) -> int:
        """How many values were cut by a limit so far."""
        return self._cuts + self._convert.cuts

    def take(self, value: Any) -> bytes:
        """The value in msgpack; `decode_value` reads it back."""
        try:
            if self._always_walk:
                return self._walk(value)
            if self._is_short(value):
                return self._encode_short(value)
            if has_names(value) or has_long_text(value, self._max_bytes):
                return self._walk(value)
            return self._encode_plain(value)
        except TypeError:  # some object needs converting
            try:
                self._convert.begin()
                return self._encode(private(value))
            except Exception:
                pass_on_signals()
                return self._walk(value)
        except TooLong:
            return self._walk(value)
        except Exception:  # of many kinds, from msgspec or from the value: the walk finds and marks the place
            pass_on_signals()
            return self._walk(value)

    def _is_short(self, value: Any) -> bool:
        """Whether it is a number or a short text, or a small dict of these: most values, encoded without more ado."""
        kind = type(value)
        if kind is dict:
            if len(value) > FEW:
                return False
            for key, item in value.items():
                kind = type(item)
                if kind is str or kind is bytes:
                    if len(item) > self._short:
                        return False
                elif kind not in NUMBERS:
                    return False
                if type(key) is not str or len(key) > self._short:
                    return False
            return True
        return len(value) <= self._short if kind is str or kind is bytes else kind in NUMBERS

    def _walk(self, value: Any) -> bytes:
        walk = Walk(
            self._convert,
            max_bytes=self._max_bytes,
            max_items=self._max_items,
            max_depth=self._max_depth,
            limited=self._always_walk,
        )
        try:
            return walk.run(value)
        except Exception as error:
            pass_on_signals()
            return self._encode_short(opaque(value, f"{type(error).__name__} while it was recorded"))
        finally:
            self._cuts += walk.cuts
