"""The part of several texts in which they differ, so that it is never cut away because something long is the same."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix


def differing_parts(texts: Sequence[str], *, around: int) -> list[str]:
    """Each text without what all have at the beginning and at the end, but for some letters; `…` stands for the rest.

    Texts that are all the same stay whole.
    """
    if len(set(texts)) < 2:
        return list(texts)
    before = len(commonprefix(list(texts)))
    after = len(commonprefix([text[before:][::-1] for text in texts]))
    first, kept_after = max(0, before - around), min(after, around)
    parts = []
    for text in texts:
        end = len(text) - after + kept_after
        parts.append("…" * (first > 0) + text[first:end] + "…" * (end < len(text)))
    return parts
