"""Traced text on a terminal: nothing in it may be obeyed, and its width is counted in columns."""

from __future__ import annotations

import unicodedata


def plain_text(text: str) -> str:
    """Text in which nothing can move a cursor, change a colour or turn the writing direction."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def text_width(text: str) -> int:
    """Columns on a terminal: Chinese, Japanese and Korean take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
