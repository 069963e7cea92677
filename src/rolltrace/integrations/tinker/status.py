"""How the integration is doing in this process."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from rolltrace.integrations.changes import Changes

TESTED = ("0.5.8",)
"""The releases of tinker-cookbook with which the tests were run."""

installed = False
"""Whether `install` was called in this process."""
changes = Changes("tinker-cookbook", "--tinker")
changed = changes.changed
problems = changes.problems


def warn() -> None:
    """Say once what is wrong, now that somebody traces."""
    changes.warn_once(complaints)


def complaints() -> list[str]:
    """What is wrong in this process, in words."""
    lines = [f"{name} is not as in {TESTED[-1]}, so part of it is not traced ({why})" for name, why in problems.items()]
    release = cookbook_version()
    if release is not None and release not in TESTED:
        lines.append(f"version {release} was not tested with this rolltrace; tested: {', '.join(TESTED)}")
    return lines


def cookbook_version() -> str | None:
    """Which tinker-cookbook is installed; None if none is."""
    try:
        return version("tinker-cookbook")
    except PackageNotFoundError:
        return None
