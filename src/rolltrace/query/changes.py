"""What changed between two recorded values. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

_MISSING = object()
_MOST = 200


class Change(NamedTuple):
    """A place where two values differ; None for what is not there."""

    path: str
    """Such as `board[2].owner`."""
    before: Any
    after: Any


def changes_between(before: Any, after: Any) -> list[Change]:
    """The places where two values differ, at most 200, as deep as both are objects or lists."""
    found = []
    for change in _changes("", before, after):
        found.append(change)
        if len(found) == _MOST:
            break
    return found


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(
                f"{path}.{key}" if path else str(key), before.get(key, _MISSING), after.get(key, _MISSING)
            )
    elif isinstance(before, list) and isinstance(after, list):
        for at, (one, other) in enumerate(zip_longest(before, after, fillvalue=_MISSING)):
            yield from _changes(f"{path}[{at}]", one, other)
    elif type(before) is not type(after) or (before != after and repr(before) != repr(after)):
        yield Change(path, *(None if each is _MISSING else each for each in (before, after)))
