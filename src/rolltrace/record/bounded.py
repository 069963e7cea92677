"""msgspec with an end: encoding stops when the output gets longer than a limit.

A small value can have an output without end: of `l = [l, l]`, done forty times, the encoding has 2^40 items. msgspec
knows no limit, but it can write into a bytearray, and one that is looked at through a memoryview cannot grow: the
encoding then ends with a BufferError, after as much work as the limit allows. What it does before it writes is not
limited by this: text that is not ASCII is first converted as a whole, seconds for each gigabyte. So a search
for long text comes first.
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
FEW = 64
SHORT = 8 << 10
"""So many texts, each so short, need no bound."""
_MAX_CONTAINERS = 128
_FEW_NUMBERS = 8
"""A short list may be a pair of a number and a text."""
_MAX_SPARE = 4
_resize = ctypes.pythonapi.PyByteArray_Resize
"""Part of Python's API; from Python itself a bytearray can only be made longer by writing zeros into it."""
_resize.argtypes = (ctypes.py_object, ctypes.c_ssize_t)


class _Buffer:
    """A bytearray that cannot grow. msgspec sets its length to that of what it wrote, which `give_back` undoes."""

    __slots__ = ("_view", "data")

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self._view = memoryview(self.data)  # as long as it is there, the bytearray keeps its memory

    def give_back(self, size: int) -> None:
        self._view.release()
        _resize(self.data, size)
        self._view = memoryview(self.data)


class BoundedEncoder:
    """Encodes values of at most so many bytes. Safe to share between threads."""

    def __init__(self, most_bytes: int, enc_hook: Callable[[Any], Any] | None = None) -> None:
        self.most_bytes = most_bytes
        self._encode_into = msgspec.msgpack.Encoder(enc_hook=enc_hook).encode_into
        self._spare: list[_Buffer] = []

    def __call__(self, value: Any) -> bytes:
        """The value in msgpack.

        Raises:
            TooLong: it takes more than `most_bytes`.
        """
        try:
            buffer = self._spare.pop()
        except IndexError:
            buffer = _Buffer(self.most_bytes)
        try:
            self._encode_into(value, buffer.data)
            return bytes(buffer.data)
        finally:
            buffer.give_back(self.most_bytes)
            if len(self._spare) < _MAX_SPARE:
                self._spare.append(buffer)


def has_long_text(value: Any, most_chars: int) -> bool:
    """Whether there is text longer than this in the first hundred containers of a value, without their keys.

    Long text further down is not found: a search of everything would cost more than encoding. Of a list that begins and
    ends with a number, token ids as a rule, no item is looked at; the dicts of a list, its messages, are looked into
    right there, which costs a third less than to queue them.
    """
    todo = [value]
    for node in todo:
        kind = type(node)
        if kind is dict:
            items = node.values() if len(node) <= FEW else islice(node.values(), FEW)
        elif kind is list or kind is tuple:
            if not node:
                continue
            first = type(node[0])
            if first in NUMBERS and len(node) > _FEW_NUMBERS and type(node[-1]) in NUMBERS:
                continue
            items = node if len(node) <= FEW else node[:FEW]
            if first is dict:
                for message in items:
                    if type(message) is dict and len(message) <= FEW:
                        for item in message.values():
                            if type(item) is str:
                                if len(item) > most_chars:
                                    return True
                            elif type(item) not in NUMBERS and len(todo) < _MAX_CONTAINERS:
                                todo.append(item)
                    elif len(todo) < _MAX_CONTAINERS:
                        todo.append(message)
                continue
        else:
            if kind is str and len(node) > most_chars:
                return True
            continue
        for item in items:
            if type(item) is str:
                if len(item) > most_chars:
                    return True
            elif type(item) not in NUMBERS and len(todo) < _MAX_CONTAINERS:
                todo.append(item)
    return False
