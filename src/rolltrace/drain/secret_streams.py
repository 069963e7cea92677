"""Secrets that are spread over the items of a list: the pieces in which a model streams its answer.

Texts at the same path of items that follow each other are put together, as `choices[0].delta.content` of chunks is.
Only short ones as a whole: of a long one, a message say, its begin and its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from rolltrace.drain.secret_names import Secret

_MAX_PIECE_CHARS = 256
_MAX_LEVELS = 10
"""Those of `choices[0].delta.tool_calls[0].function.arguments`, and some around them."""
_HOLDS_NO_TEXT = frozenset({int, float, bool, type(None)})

FieldPath = tuple[Any, ...]
Change = tuple[int, int, str]
"""Begin and end of what is replaced in a text, and what stands there then."""


class _Piece(NamedTuple):
    """A text, or the begin or end of one."""

    item: int
    """Which item of the list it stands in."""
    offset: int
    text: str


def without_spread_secrets(items: list[Any], find: Callable[[str], list[Secret]]) -> tuple[list[Any], int]:
    """The items without the secrets that no single one of them shows, and how many those were.

    What stands for a secret stands where it began; the rest of it is gone.
    """
    count, clean = 0, items
    for path, texts in _texts_by_path(items).items():
        changes: dict[int, list[Change]] = {}
        for run in _runs(texts):
            count += _note_changes(run, find, changes)
        if changes:
            clean = list(clean) if clean is items else clean
            for number, text in texts:
                if number in changes:
                    # With those that it shows by itself: of what is left after the change they might not be known.
                    within_one_item = [(secret.start, secret.end, secret.mark) for secret in find(text)]
                    changed = _with_changes(text, changes[number] + within_one_item)
                    clean[number] = _with_text_at(clean[number], path, changed)
    return clean, count


def _texts_by_path(items: list[Any]) -> dict[FieldPath, list[tuple[int, str]]]:
    """The texts at each path of the items, and which items they stand in."""
    texts_by_path: dict[FieldPath, list[tuple[int, str]]] = {}

    def collect(number: int, item: Any, path: FieldPath) -> None:
        kind = type(item)
        if kind is str:
            if item:
                texts_by_path.setdefault(path, []).append((number, item))
        elif len(path) < _MAX_LEVELS and kind is dict:
            for key, inner in item.items():
                if type(inner) is str:
                    if inner:
                        texts_by_path.setdefault((*path, key), []).append((number, inner))
                elif type(inner) not in _HOLDS_NO_TEXT:
                    collect(number, inner, (*path, key))
        elif len(path) < _MAX_LEVELS and kind is list and len(item) == 1:
            collect(number, item[0], (*path, 0))

    for number, item in enumerate(items):
        if type(item) not in _HOLDS_NO_TEXT:
            collect(number, item, ())
    return texts_by_path


def _runs(texts: list[tuple[int, str]]) -> Iterator[list[_Piece]]:
    """Several pieces that touch each other: short ones, from the end of a long one to the begin of the next."""
    if len(texts) < 2:
        return
    run: list[_Piece] = []
    for number, text in texts:
        run.append(_Piece(number, 0, text[:_MAX_PIECE_CHARS]))
        if len(text) > _MAX_PIECE_CHARS:
            if len(run) > 1:
                yield run
            run = [_Piece(number, len(text) - _MAX_PIECE_CHARS, text[-_MAX_PIECE_CHARS:])]
    if len(run) > 1:
        yield run


def _note_changes(run: list[_Piece], find: Callable[[str], list[Secret]], changes: dict[int, list[Change]]) -> int:
    """Note what to change in which items for each secret that stands in several of these pieces; how many those are."""
    count = 0
    begins = [*accumulate((len(piece.text) for piece in run), initial=0)]
    for secret in find("".join(piece.text for piece in run)):
        touched = [
            (piece, begin)
            for piece, begin, end in zip(run, begins, begins[1:])
            if begin < secret.end and end > secret.start
        ]
        if len(touched) < 2:  # one of them shows it
            continue
        count += 1
        for at, (piece, begin) in enumerate(touched):
            start = max(0, secret.start - begin) + piece.offset
            end = min(len(piece.text), secret.end - begin) + piece.offset
            changes.setdefault(piece.item, []).append((start, end, "" if at else secret.mark))
    return count


def _with_changes(text: str, changes: list[Change]) -> str:
    parts: list[str] = []
    kept_to = 0
    for start, end, mark in sorted(changes):
        if start >= kept_to:
            parts += [text[kept_to:start], mark]
        kept_to = max(kept_to, end)
    return "".join([*parts, text[kept_to:]])


def _with_text_at(item: Any, path: FieldPath, text: str) -> Any:
    """A copy of the item with another text at one path."""
    if not path:
        return text
    copy = item.copy()
    copy[path[0]] = _with_text_at(item[path[0]], path[1:], text)
    return copy
