"""Which TRL this is, and whether it was tested with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from rolltrace.integrations.changes import Changes

TESTED = ("1.5.0", "1.10.0", "1.16.0")
"""The releases of TRL with which the tests were run. All between the first and the last have the same seams."""

_changes = Changes("TRL", "--trl")


def warn() -> None:
    """Say once what is wrong, now that somebody traces."""
    _changes.warn_once(complaints)


def complaints() -> list[str]:
    """What is wrong in this process, in words."""
    release = trl_version()
    if release is None or is_in_range(release):
        return []
    return [f"version {release} was not tested with this rolltrace; tested: {TESTED[0]} to {TESTED[-1]}"]


def is_in_range(release: str) -> bool:
    """Whether it is one of those tested with, or between them."""
    return _numbers(TESTED[0]) <= _numbers(release) <= _numbers(TESTED[-1])


def trl_version() -> str | None:
    """Which TRL is installed; None if none is."""
    try:
        return version("trl")
    except PackageNotFoundError:
        return None


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)[:3]]
