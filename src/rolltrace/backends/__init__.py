"""Where traces go besides the embedded store: backends, found by entry point.

The embedded store, named `rolltrace`, is always there and always written: the others are fed from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rolltrace.errors import BackendError

EMBEDDED = "rolltrace"
GROUP = "rolltrace.backends"


def installed() -> list[str]:
    """The names that `init(backend=...)` takes, the embedded store first."""
    from importlib.metadata import entry_points  # slow to import, and not needed for the embedded store alone

    return [EMBEDDED, *sorted({point.name for point in entry_points(group=GROUP)} - {EMBEDDED})]


def check(names: Iterable[str]) -> None:
    """Raise `BackendError` if one of the names is not installed."""
    others = [name for name in names if name != EMBEDDED]
    if not others:
        return
    known = installed()
    for name in others:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise BackendError(f"no backend {name!r}; installed: {', '.join(known)}{hint}")
