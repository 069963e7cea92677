"""Take secrets out of decoded text, so that the pieces of its tokens still fit.

The text of a turn begins with that of the turn before. Only what is new is searched, with as much before it as a secret
may reach back; rules of a store's own may reach back any length, and are searched for in all of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import NamedTuple

from rolltrace.drain.redact import Redactor
from rolltrace.drain.secret_values import Secret

_LONGEST_SECRET = 8192
_MOST_TEXTS = 4
_MOST_CHARS = 32_000_000


class CleanText(NamedTuple):
    """Text without secrets, and which part of it is whose."""

    text: str
    prompt_chars: int
    piece_chars: array[int]


class _Searched(NamedTuple):
    text: str
    secrets: list[Secret]


class CleanTexts:
    """Remembers the newest texts of each trajectory, and the secrets in them."""

    def __init__(self) -> None:
        self._searched: OrderedDict[bytes, list[_Searched]] = OrderedDict()
        self._chars = 0
        self.searched_chars = 0
        """How many characters were looked at in all, by the usual rules."""

    def clean(
        self, trajectory_id: bytes, text: str, prompt_chars: int, piece_chars: array[int], redactor: Redactor
    ) -> CleanText:
        """What may be kept of a text."""
        original = CleanText(text, prompt_chars, piece_chars)
        secrets = self._secrets(trajectory_id, text, redactor)
        return without(secrets, original) if secrets else original

    def _secrets(self, trajectory_id: bytes, text: str, redactor: Redactor) -> list[Secret]:
        searched = self._searched.pop(trajectory_id, [])
        self._chars -= sum(len(each.text) for each in searched)
        before = max(
            (each for each in searched if text.startswith(each.text)), key=lambda each: len(each.text), default=None
        )
        secrets = self._search(text, before, redactor)
        searched = [each for each in searched if each is not before]
        self._searched[trajectory_id] = searched = [*searched, _Searched(text, secrets)][-_MOST_TEXTS:]
        self._chars += sum(len(each.text) for each in searched)
        while self._chars > _MOST_CHARS:
            _, gone = self._searched.popitem(last=False)
            self._chars -= sum(len(each.text) for each in gone)
        return secrets

    def _search(self, text: str, before: _Searched | None, redactor: Redactor) -> list[Secret]:
        if before is None:
            self.searched_chars += len(text)
            return redactor.secrets(text)
        if len(before.text) == len(text):
            return before.secrets
        start = max(0, len(before.text) - _LONGEST_SECRET)
        # One that the text before ended in may be longer now, or none after all.
        over = [each for each in before.secrets if each.end < len(before.text)]
        start = min([start, *(each.start for each in before.secrets if each.end == len(before.text))])
        start = max(0, text.rfind(" ", 0, start), text.rfind("\n", 0, start))  # not in the middle of a word
        self.searched_chars += len(text) - start
        return redactor.secrets(text, start, over)


def without(secrets: list[Secret], original: CleanText) -> CleanText:
    """The text with the secrets replaced. What stands for a secret counts for the token in which it began."""
    ends = list(accumulate(original.piece_chars))
    counts = original.piece_chars[:]
    prompt_chars = original.prompt_chars
    parts, kept_to = [], 0
    for secret in secrets:
        (start, end, _), word = secret, secret.mark
        parts += [original.text[kept_to:start], word]
        kept_to = end
        first, last = bisect_right(ends, start), bisect_left(ends, end)
        if first == last:
            counts[first] += len(word) - (end - start)
        else:
            counts[first] -= ends[first] - start - len(word)
            counts[first + 1 : last] = array("i", bytes(4 * (last - first - 1)))
            counts[last] = ends[last] - end
        if start < original.prompt_chars:
            prompt_chars += len(word) - (min(end, original.prompt_chars) - start)
    return CleanText("".join([*parts, original.text[kept_to:]]), prompt_chars, counts)
