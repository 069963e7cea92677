"""The part of several texts in which they differ, so that it is never cut away because something long is the same."""

from __future__ import annotations

from collections.abc import Sequence


def differing_parts(texts: Sequence[str], *, around: int) -> list[str]:
    """Each text without what all have at the beginning and at the end, but for some letters; `…` stands for the rest.

    Texts that are all the same stay whole.
    """
    if len(set(texts)) < 2:
        return list(texts)
    before = _common_start(texts)
    after = _common_start([text[before:][::-1] for text in texts])
    first, kept_after = max(0, before - around), min(after, around)
    parts = []
    for text in texts:
        end = len(text) - after + kept_after
        parts.append("…" * (first > 0) + text[first:end] + "…" * (end < len(text)))
    return parts


def _common_start(texts: Sequence[str]) -> int:
    """How many letters all texts have in common at the beginning."""
    # The least and the greatest have nothing in common that the others between them have not.
    first, last = min(texts), max(texts)
    return next((at for at, (one, other) in enumerate(zip(first, last)) if one != other), len(first))
