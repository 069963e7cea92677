"""The text of each token, from nothing but `decode(ids) -> str`.

What a token adds to the text depends on those around it: a space that only stands between two words, a character whose
bytes are spread over several tokens. So tokens are decoded together with a few of those before them, and while the text
ends in U+FFFD, the mark of a character that is not complete, its tokens wait for the next one.

One token at a time would be slow. Most tokens add the same text wherever they stand; if the usual texts of a run of
tokens put together are what decoding the run gives, they are right.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from rolltrace.record import Rest

BEFORE = 6
"""How many tokens before a run are decoded with it."""
_RUN = 64
_WINDOW = 16
_MAX_WAITING = 8
_MAX_USUAL = 1 << 18
_BROKEN = "\ufffd"


class Pieces:
    """Splits the text of one tokenizer into the pieces of its tokens."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode_some = decode
        self._usual: dict[int, str] = {}

    def _decode(self, ids: list[int]) -> str:
        return self._decode_some(ids) if ids else ""

    def rest(self, ids: list[int], start: int) -> Rest:
        """The text of the tokens from the nth on."""
        texts: list[str] = []
        counts: array[int] = array("i")
        loose, at = 0, start
        while at < len(ids):
            end = min(at + _RUN, len(ids))
            pieces = self._guess(ids, at, end)
            if pieces is None:
                pieces, loose = self._one_by_one(ids, at, end)
            texts += pieces
            counts.extend(map(len, pieces))
            at += len(pieces)
        return Rest("".join(texts), counts, loose)

    def _guess(self, ids: list[int], start: int, end: int) -> list[str] | None:
        pieces = [self._usual.get(each) for each in ids[start:end]]
        if None in pieces:
            return None
        first, before = self._context(ids, start)
        text = self._decode(ids[first:end])
        guessed = [piece for piece in pieces if piece is not None]
        return guessed if not text.endswith(_BROKEN) and text == before + "".join(guessed) else None

    def _context(self, ids: list[int], at: int) -> tuple[int, str]:
        """From where on to decode so that the text of what follows is right, and the text up to there.

        Not from inside a character: some decoders give up on all bytes that stand together if one is wrong.
        """
        first = max(0, at - BEFORE)
        text = self._decode(ids[first:at])
        while text.startswith(_BROKEN) and first < at:
            first += 1
            text = self._decode(ids[first:at])
        return first, text

    def _one_by_one(self, ids: list[int], start: int, end: int) -> tuple[list[str], int]:
        """The pieces from `start` to `end`, or further if a character is not complete there; the loose characters."""
        first, before = self._context(ids, start)
        pieces: list[str] = []
        waiting, at, text = 0, start, before
        while at < len(ids) and (at < end or waiting):
            text = self._decode(ids[first : at + 1])
            at += 1
            if text.endswith(_BROKEN) and waiting < _MAX_WAITING:
                waiting += 1
                pieces.append("")
                continue
            piece = text[len(before) :]
            if not waiting and at > 1 and len(self._usual) < _MAX_USUAL and _BROKEN not in piece:
                self._usual[ids[at - 1]] = piece
            pieces.append(piece)
            before, waiting = text, 0
            if at - first >= _WINDOW:
                first, before = self._context(ids, at)
        if not waiting:
            return pieces, 0
        # Nothing more comes: shown as the tokenizer shows it, unless that takes back what was complete.
        pieces[-1] = text[len(before) :] if text.startswith(before) else _BROKEN * waiting
        return pieces, len(pieces[-1])
