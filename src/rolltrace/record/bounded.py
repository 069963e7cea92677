"""msgspec with an end: encoding stops when the output gets longer than a limit.

A small value can have an output without end: of `l = [l, l]`, done forty times, the encoding has 2^40 items. msgspec
knows no limit, but it can write into a bytearray, and one that is looked at through a memoryview cannot grow: the
encoding then ends with a BufferError, after as much work as the limit allows. What it does before it writes is not
limited by this: text that is not ASCII is first converted as a whole. See `long_text`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

TooLong = BufferError
"""Raised when the output does not fit."""
NUMBERS = frozenset({int, float, bool, type(None)})
_CONTAINERS = frozenset({dict, list, tuple})
_MOST_SPARE = 4
_MOST_CONTAINERS = 128
_MOST_ITEMS = 64
_resize: Any = ctypes.pythonapi.PyByteArray_Resize
"""Gives a bytearray its length back without filling it with zeros."""
_resize.argtypes = (ctypes.py_object, ctypes.c_ssize_t)


class BoundedEncoder:
    """Encodes values of at most so many bytes. Safe to share between threads."""

    def __init__(self, most_bytes: int, enc_hook: Callable[[Any], Any] | None = None) -> None:
        self.most_bytes = most_bytes
        self._encode_into = msgspec.msgpack.Encoder(enc_hook=enc_hook).encode_into
        self._spare: list[bytearray] = []

    def __call__(self, value: Any) -> bytes:
        """The value in msgpack.

        Raises:
            TooLong: it takes more than `most_bytes`.
        """
        try:
            buffer = self._spare.pop()
        except IndexError:
            buffer = bytearray(self.most_bytes)
        try:
            with memoryview(buffer):
                self._encode_into(value, buffer)
            return bytes(buffer)
        finally:
            _resize(buffer, self.most_bytes)
            if len(self._spare) < _MOST_SPARE:
                self._spare.append(buffer)


def long_text(value: Any, most_chars: int) -> bool:
    """Whether the value holds text longer than this, in one of its first hundred containers.

    Converting a gigabyte of Chinese takes seconds. A search of everything would cost more than the encoding; lists that
    begin with a number are not searched, they are token ids.
    """
    kind = type(value)
    if kind is str:
        return len(value) > most_chars
    todo = [value] if kind in _CONTAINERS else []
    for node in todo:
        kind = type(node)
        if kind is dict:
            items = node.values() if len(node) <= _MOST_ITEMS else list(islice(node.values(), _MOST_ITEMS))
        elif node and type(node[0]) not in NUMBERS:
            items = node if len(node) <= _MOST_ITEMS else node[:_MOST_ITEMS]
        else:
            continue
        for item in items:
            kind = type(item)
            if kind is str:
                if len(item) > most_chars:
                    return True
            elif kind in _CONTAINERS and len(todo) < _MOST_CONTAINERS:
                todo.append(item)
    return False
