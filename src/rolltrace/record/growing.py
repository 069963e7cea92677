"""Decode a sequence of tokens that grows from turn to turn only once: each turn, what is new.

The newest sequences of each trajectory are remembered with their text. Several of them, because an agent loop, the
parsing of one reply and a second agent do not share a prefix. What is found again need not be a whole sequence:
rewritten history costs the tokens after the change.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Ids = TypeVar("Ids", bound=Sized)

_MAX_SEQUENCES = 4
_MAX_EMPTY = 16
"""How many tokens without text of their own are decoded again, to begin where a character begins."""


@dataclass(frozen=True, eq=False)
class Decoded(Generic[Ids]):
    """Tokens with their text."""

    ids: Ids
    text: str
    piece_chars: array[int]
    """How many characters of `text` each token ends."""
    loose_chars: int
    """Characters at the end, all of the last token, that may read otherwise when more tokens follow."""


class Rest(NamedTuple):
    """The text of the tokens from some place on."""

    text: str
    piece_chars: array[int]
    loose_chars: int


class Growing(Generic[Ids]):
    """Remembers what was decoded, up to a number of tokens, the least recently used going first."""

    def __init__(self, most_tokens: int, common: Callable[[Ids, Ids], int]) -> None:
        self._most_tokens = most_tokens
        self._common = common
        self._sequences: OrderedDict[Hashable, list[Decoded[Ids]]] = OrderedDict()
        self._tokens = 0
        self.decoded_tokens = 0
        """How many tokens were decoded in all, those decoded again included."""

    def grow(self, key: Hashable, ids: Ids, decode: Callable[[Ids, int], Rest]) -> Decoded[Ids]:
        """The tokens with their text.

        Args:
            key: Which trajectory and tokenizer.
            ids: The tokens.
            decode: Gives the text from the nth token on; it may look at those before.
        """
        sequences = self._take(key)
        shared, before = max(
            ((self._common(each.ids, ids), each) for each in sequences), key=lambda pair: pair[0], default=(0, None)
        )
        if before is None or not shared:
            fresh = Decoded(ids, *decode(ids, 0))
            self.decoded_tokens += len(ids)
        elif shared == len(ids) == len(before.ids):
            fresh = before
        else:
            fresh = self._continue(before, shared, ids, decode)
        if before is not None and shared == len(before.ids):
            sequences = [each for each in sequences if each is not before]
        if before is None or shared < len(ids) or fresh is before:
            sequences.append(fresh)
        self._put(key, sequences[-_MAX_SEQUENCES:])
        return fresh

    def _continue(
        self, before: Decoded[Ids], shared: int, ids: Ids, decode: Callable[[Ids, int], Rest]
    ) -> Decoded[Ids]:
        start = _boundary(before.piece_chars, min(shared, len(before.ids) - (before.loose_chars > 0), len(ids) - 1))
        shared_chars = len(before.text) - sum(before.piece_chars[start:])
        rest = decode(ids, start)
        self.decoded_tokens += len(ids) - start
        return Decoded(
            ids, before.text[:shared_chars] + rest.text, before.piece_chars[:start] + rest.piece_chars, rest.loose_chars
        )

    def _take(self, key: Hashable) -> list[Decoded[Ids]]:
        sequences = self._sequences.pop(key, [])
        self._tokens -= sum(len(each.ids) for each in sequences)
        return sequences

    def _put(self, key: Hashable, sequences: list[Decoded[Ids]]) -> None:
        self._sequences[key] = sequences
        self._tokens += sum(len(each.ids) for each in sequences)
        while self._tokens > self._most_tokens and self._sequences:
            self._take(next(iter(self._sequences)))


def _boundary(piece_chars: array[int], at: int) -> int:
    """The last token at or before this one after which no character is begun and not ended."""
    start = at
    while start > 0 and piece_chars[start - 1] == 0:
        start -= 1
        if at - start > _MAX_EMPTY:
            return at
    return start


def common_prefix(a: list[int], b: list[int]) -> int:
    """How many tokens two lists begin with together."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low + 1 < high:  # comparing slices is many times faster than comparing tokens
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
