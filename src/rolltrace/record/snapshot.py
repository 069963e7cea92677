"""A user value as it is now, in bytes: the encoding is the snapshot.

The fast path is one call of msgspec that runs no Python code, so no other thread can change the value meanwhile:
msgspec does not survive a list that shrinks under it. A value with objects that need converting is therefore first
copied, containers only. What msgspec refuses (integers over 64 bits, lone surrogates, cycles) and what is over a
limit goes through a `Walk`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rolltrace._guard import pass_on_signals
from rolltrace.record.convert import BlobKeeper, Converters, opaque, private
from rolltrace.record.walk import NAMELESS, Walk, has_names


def _forget(name: str, info: dict[str, Any], data: bytes) -> None:
    """The keeper of a snapshotter that nobody listens to."""


class Snapshotter:
    """Takes snapshots under one set of limits. Safe to share between threads."""

    def __init__(
        self,
        *,
        max_bytes: int = 32 << 20,
        max_items: int | None = None,
        max_depth: int | None = None,
        max_array_bytes: int = 1 << 20,
        keep_blob: BlobKeeper = _forget,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._max_depth = max_depth
        self._convert = Converters(max_array_bytes, max_bytes, keep_blob)
        self._encode_plain = msgspec.msgpack.Encoder().encode
        self._encode = msgspec.msgpack.Encoder(enc_hook=self._convert).encode
        self._always_walk = max_items is not None or max_depth is not None
        self._cuts = 0

    @property
    def cuts(self) -> int:
        """How many values were cut by a limit so far."""
        return self._cuts + self._convert.cuts

    def take(self, value: Any) -> bytes:
        """The value in msgpack; `decode_value` reads it back."""
        try:
            if self._always_walk or (type(value) not in NAMELESS and has_names(value)):
                return self._walk(value)
            raw = self._encode_plain(value)
        except TypeError:  # some object needs converting
            try:
                raw = self._encode(private(value))
            except Exception:
                pass_on_signals()
                return self._walk(value)
        except Exception:  # of many kinds, from msgspec or from the value: the walk finds and marks the place
            pass_on_signals()
            return self._walk(value)
        return raw if len(raw) <= self._max_bytes else self._walk(value)

    def _walk(self, value: Any) -> bytes:
        walk = Walk(
            self._encode_plain,
            self._encode,
            self._convert,
            max_bytes=self._max_bytes,
            max_items=self._max_items,
            max_depth=self._max_depth,
        )
        try:
            return walk.run(value)
        except Exception as fault:
            pass_on_signals()
            return self._encode(opaque(value, f"{type(fault).__name__} while it was recorded"))
        finally:
            self._cuts += walk.cuts
