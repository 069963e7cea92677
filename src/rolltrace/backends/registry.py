"""Where traces go besides the embedded store: backends, found by entry point.

The embedded store, named `rolltrace`, is always there and always written: the others are fed from it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rolltrace.backends.backend import Backend
from rolltrace.errors import BackendError, MissingExtraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EMBEDDED = "rolltrace"
GROUP = "rolltrace.backends"


def installed() -> list[str]:
    """The names that `init(backend=...)` takes, the embedded store first."""
    return [EMBEDDED, *sorted(_points().keys() - {EMBEDDED})]


def check(names: Iterable[str]) -> None:
    """See that these can be used, without loading any of them.

    Raises:
        BackendError: one is not installed.
        MissingExtraError: the package that one needs is not installed.
    """
    for name in names:
        if name != EMBEDDED:
            point = _find(name)
            missing = _missing_packages(point)
            if missing:
                raise MissingExtraError(_install_line(point, missing[0]))


def load(name: str) -> Backend:
    """A backend, ready to send to. This loads the vendor's library.

    Raises:
        BackendError: it is not installed, or cannot work until somebody does something.
        MissingExtraError: the package that it needs is not installed.
    """
    if name == EMBEDDED:
        raise BackendError(f"{EMBEDDED!r} is the store itself; nothing needs to be sent there")
    point = _find(name)
    try:
        kind = point.load()
    except ModuleNotFoundError as error:
        raise MissingExtraError(_install_line(point, error.name or str(error))) from error
    backend: Backend = kind()
    return backend


def _points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and not needed for the embedded store alone

    return {point.name: point for point in entry_points(group=GROUP)}


def _find(name: str) -> EntryPoint:
    points = _points()
    if name not in points:
        names = [EMBEDDED, *sorted(points)]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BackendError(f"no backend {name!r}; installed: {', '.join(names)}{hint}")
    return points[name]


def _missing_packages(point: EntryPoint) -> list[str]:
    """What the extra of the backend's name asks for and is not there."""
    from importlib.metadata import PackageNotFoundError, distribution

    missing = []
    for line in (point.dist.requires if point.dist is not None else None) or ():
        match = re.match(r"""\s*([\w.-]+).*;.*\bextra\s*==\s*['"]([\w.-]+)['"]""", line)
        if match is not None and match[2].replace("_", "-") == point.name.replace("_", "-"):
            try:
                distribution(match[1])
            except PackageNotFoundError:
                missing.append(match[1])
    return missing


def _install_line(point: EntryPoint, package: str) -> str:
    home = point.dist.name if point.dist is not None else ""
    line = f"pip install 'rolltrace[{point.name}]'" if home == "rolltrace" else f"pip install {package}"
    return f"the backend {point.name!r} needs the package {package!r}, which is not installed; {line}"
