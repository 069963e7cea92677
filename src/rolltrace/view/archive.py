"""The data of a shared file: answers of the server, packed so that what they repeat is there once.

Every text, list and object stands once in a table, after those inside it; inside another, one that stands in the table
is `[its number]`, and nothing else is a list there. A prompt repeats all before it, so that this saves far more than a
compression with a short memory does. The viewer unpacks it in `viewer/src/model/archive.ts`.
"""

from __future__ import annotations

import base64
from typing import Any, Literal, overload

import msgspec

_SHORTEST_TEXT = 24
"""Shorter ones are written where they stand: a number would save nothing."""


_SCALARS = frozenset({int, float, bool, type(None)})


class Archive:
    """Answers by their questions. A question is the path of its endpoint, then the arguments that matter."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._places: dict[Any, int] = {}
        self._answers: dict[str, int] = {}
        self._images: dict[str, str] = {}

    def add(self, question: str, answer: Any) -> Any:
        """Keep an answer; returns it as plain values."""
        value = msgspec.to_builtins(answer)
        self._answers[question] = self._packed(value, top=True)
        return value

    def add_image(self, name: str, media_type: str, data: bytes) -> None:
        """Keep an image by its hash."""
        self._images[name] = f"data:{media_type};base64,{base64.b64encode(data).decode()}"

    def __contains__(self, question: str) -> bool:
        return question in self._answers

    def has_image(self, name: str) -> bool:
        """Whether it is kept."""
        return name in self._images

    def encoded(self, **about: Any) -> bytes:
        """All of it as JSON, with some words about it."""
        return msgspec.json.encode({**about, "values": self._values, "answers": self._answers, "images": self._images})

    @overload
    def _packed(self, value: Any, top: Literal[True]) -> int: ...
    @overload
    def _packed(self, value: Any, top: Literal[False] = False) -> Any: ...
    def _packed(self, value: Any, top: bool = False) -> Any:
        """What stands for a value inside another; of one at the top, its place in the table."""
        kind = type(value)
        if kind is dict and (value or top):
            entry: Any = {key: item if type(item) in _SCALARS else self._packed(item) for key, item in value.items()}
            place = self._place((kind, tuple((key, _sign(item)) for key, item in entry.items())), entry)
        elif kind is list and (value or top):
            entry = [self._packed(item) for item in value]
            place = self._place((kind, tuple(map(_sign, entry))), entry)
        elif kind is str and (len(value) >= _SHORTEST_TEXT or top):
            place = self._place(value, value)
        else:
            return value
        return place if top else [place]

    def _place(self, key: Any, entry: Any) -> int:
        place = self._places.setdefault(key, len(self._values))
        if place == len(self._values):
            self._values.append(entry)
        return place


def _sign(item: Any) -> Any:
    """What tells two items apart: to Python, 1, 1.0 and True are equal."""
    kind = type(item)
    return item if kind is str else (kind, *item) if kind is list or kind is dict else (kind, item)
