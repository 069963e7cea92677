"""token2text: the text of an op's tokens, each token decoded once, and without secrets.

The text of a turn begins with that of the turn before. Only what is new is searched for secrets, with as much before it
as a secret may reach back; rules of a store's own may reach back any length, and are searched for in all of it. The
pieces of the tokens fit the text that is left.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace._guard import logger
from rolltrace.drain.redact import Redactor
from rolltrace.drain.secret_names import Secret
from rolltrace.drain.shared import SharedParts
from rolltrace.record import Growing
from rolltrace.text import Detokenizer, load_detokenizer, tokenizer_file

_MAX_TOKENS_REMEMBERED = 8_000_000
_MAX_LOADED = 4
"""Tokenizers in memory at once: one takes some 50 MB."""
MAX_WARNINGS = 1000
_FINGERPRINT = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
"""What may name a file of a tokenizer."""
_MAX_SECRET_CHARS = 8192
_MAX_TEXTS = 4
_MAX_TEXT_CHARS = 32_000_000


class Texts:
    """Decodes tokens with the tokenizers saved in a store, and takes secrets out of the text."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._growing: Growing[pa.Array] = Growing(_MAX_TOKENS_REMEMBERED, _common_prefix)
        self._clean = CleanTexts()
        self._loaded: OrderedDict[str, Detokenizer | None] = OrderedDict()
        """The last that were used; None for one that cannot be."""
        self._warned: set[str] = set()

    @property
    def decoded_tokens(self) -> int:
        """How many tokens were decoded in all."""
        return self._growing.decoded_tokens

    @property
    def searched_chars(self) -> int:
        """How many characters were searched for secrets in all."""
        return self._clean.searched_chars

    def columns(
        self, tokenizer: str, trajectory_id: bytes, fields: Mapping[str, Any], redactor: Redactor
    ) -> dict[str, Any]:
        """`text`, `prompt_chars` and `piece_chars` of an op; nothing if they cannot be had."""
        ids = fields.get("tokens")
        detokenizer = None if ids is None or not _FINGERPRINT.fullmatch(tokenizer) else self._detokenizer(tokenizer)
        if detokenizer is None:
            return {}
        try:
            decoded = self._growing.grow((tokenizer, trajectory_id), ids, detokenizer.rest)
        except Exception as error:  # ids are numbers, and what a tokenizer makes of them is the tokenizer's affair
            self._warn(tokenizer, error)
            return {}
        of_prompt = _arrow(decoded.piece_chars).slice(0, fields.get("prompt_tokens") or 0)
        prompt_chars = pc.sum(of_prompt).as_py() or 0
        return self._cleaned(trajectory_id, decoded.text, prompt_chars, decoded.piece_chars, redactor)

    def late(self, trajectory_id: bytes, body: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
        """The same, for a text that the op's own process decoded.

        Raises:
            ValueError: text and pieces do not fit together.
        """
        text, prompt_chars, pieces = body["text"], body.get("prompt_chars"), body.get("piece_chars")
        if (
            not isinstance(text, str)
            or type(prompt_chars) is not int
            or not 0 <= prompt_chars <= len(text)
            or not isinstance(pieces, list)
            or not all(type(each) is int and each >= 0 for each in pieces)
            or sum(pieces) != len(text)
        ):
            raise ValueError("a text and pieces that do not fit together")
        return self._cleaned(trajectory_id, text, prompt_chars, array("i", pieces), redactor)

    def _cleaned(
        self, trajectory_id: bytes, text: str, prompt_chars: int, piece_chars: array[int], redactor: Redactor
    ) -> dict[str, Any]:
        clean = self._clean.clean(trajectory_id, text, prompt_chars, piece_chars, redactor)
        return {**clean._asdict(), "piece_chars": _arrow(clean.piece_chars)}

    def _detokenizer(self, tokenizer: str) -> Detokenizer | None:
        if tokenizer not in self._loaded:
            path = tokenizer_file(self._store, tokenizer)
            try:
                self._loaded[tokenizer] = load_detokenizer(path)
            except FileNotFoundError:
                return None  # looked for again next time: it may still come
            except Exception as error:  # a file that is none of ours, perhaps made to be hard to read
                self._warn(tokenizer, error)
                self._loaded[tokenizer] = None
            while len(self._loaded) > _MAX_LOADED:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(tokenizer)
        return self._loaded[tokenizer]

    def _warn(self, tokenizer: str, error: Exception) -> None:
        if tokenizer not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(tokenizer)
            logger.warning("no text beside token ids: %s", error)


def _arrow(counts: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(counts), [None, pa.py_buffer(counts)])


def _common_prefix(a: pa.Array, b: pa.Array) -> int:
    shorter = min(len(a), len(b))
    a, b = a.slice(0, shorter), b.slice(0, shorter)
    return shorter if a.equals(b) else int(pc.index(pc.equal(a, b), False).as_py())


class Memory:
    """What a drainer remembers from batch to batch.

    It saves work and space: without it, what is read is the same.
    """

    def __init__(self, store: Path) -> None:
        self.texts = Texts(store)
        self.shared = SharedParts()


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
        self._searched[trajectory_id] = searched = [*searched, _Searched(text, secrets)][-_MAX_TEXTS:]
        self._chars += sum(len(each.text) for each in searched)
        while self._chars > _MAX_TEXT_CHARS:
            _, gone = self._searched.popitem(last=False)
            self._chars -= sum(len(each.text) for each in gone)
        return secrets

    def _search(self, text: str, before: _Searched | None, redactor: Redactor) -> list[Secret]:
        if before is None:
            self.searched_chars += len(text)
            return redactor.secrets(text)
        if len(before.text) == len(text):
            return before.secrets
        start = max(0, len(before.text) - _MAX_SECRET_CHARS)
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
