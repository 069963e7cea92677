"""How the plug-in is doing in this process: verl hides what goes wrong with a plug-in, so we keep it."""

from __future__ import annotations

import re

from rolltrace._guard import logger
from rolltrace.integrations.changes import Changes

TESTED = ("0.7.1", "0.8.0", "0.9.0", "0.9.1")
"""The releases of verl with which the tests were run. Those before the first have other workers, and do not fit."""
MUST_COME_LATER = ("verl.utils.rollout_trace", "verl.experimental.agent_loop.agent_loop", "verl.tools.base_tool")
"""If these were imported before the plug-in, other modules may hold verl's own functions."""

loaded = False
"""Whether verl has loaded the plug-in."""
too_early: list[str] = []
"""The modules that were there before the plug-in."""
_warned_untraced = False
changes = Changes("verl", "--verl")
changed = changes.changed
problems = changes.problems


def warn() -> None:
    """Say once what is wrong, now that somebody wants to trace."""
    changes.warn_once(complaints)


def warn_untraced(manager: str | None = None) -> None:
    """Say once that rollouts are made in a way that is not traced."""
    global _warned_untraced
    if not _warned_untraced:
        _warned_untraced = True
        logger.warning(
            "verl: the rollouts of %s are not traced, because they are not made by verl's AgentLoopWorker. "
            "See: rolltrace docs verl",
            manager or "this training",
        )


def complaints() -> list[str]:
    """What is wrong in this process, in words."""
    version = verl_version()
    if version is not None and is_older(version, TESTED[0]):
        return [f"version {version} is too old, so rewards and more are not traced; needed: {TESTED[0]} or newer"]
    lines = [
        f"{name} is not as in verl {TESTED[-1]}, so part of it is not traced ({why})" for name, why in problems.items()
    ]
    lines += [f"{name} was imported before the plug-in, so part of it may not be traced" for name in too_early]
    if version is not None and version not in TESTED:
        lines.append(f"version {version} was not tested with this rolltrace; tested: {', '.join(TESTED)}")
    return lines


def verl_version() -> str | None:
    """Which verl is installed; None if none is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("verl")
    except PackageNotFoundError:
        return None


def is_older(version: str, than: str) -> bool:
    """Whether one release of verl came before another."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
