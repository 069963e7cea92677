"""What the frameworks that rolltrace plugs into bring along, found by folder: nothing else here names one of them.

A framework is a folder `integrations/NAME` whose module `framework` has a `FRAMEWORK`. That module is loaded at every
`init` and by `rolltrace doctor`, so it imports neither the framework nor anything slow at its top.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

_INTEGRATIONS = "rolltrace.integrations"


class Verdict(NamedTuple):
    """One thing that was checked about a framework."""

    ok: bool
    what: str
    do: str = ""
    """What to type next."""


class ConfigKeys(NamedTuple):
    """Where a trainer's config holds settings of ours, as paths of keys."""

    settings: tuple[str, ...]
    """The section that any setting may stand in."""
    names: tuple[str, ...]
    """The section that has `project_name` and `experiment_name`."""


@dataclass(frozen=True)
class Framework:
    """One framework."""

    name: str
    """As in `rolltrace doctor --NAME`."""
    examine: Callable[[], Iterator[Verdict]]
    """Whether it can be traced in this environment."""
    config_keys: ConfigKeys | None = None
    warning: Callable[[], str | None] = lambda: None
    """What is wrong with it in this process, if anything: asked at `init`, logged once."""


@lru_cache(maxsize=1)
def frameworks() -> tuple[Framework, ...]:
    """All that there are, by name."""
    # Not by pkgutil: a process that gave up its rights may not be able to load it any more.
    names = {
        name
        for folder in import_module(_INTEGRATIONS).__path__
        for name in os.listdir(folder)
        if os.path.exists(os.path.join(folder, name, "framework.py"))
    }
    return tuple(import_module(f"{_INTEGRATIONS}.{name}.framework").FRAMEWORK for name in sorted(names))
