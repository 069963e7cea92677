"""The integrations of this environment, and turning them on in a process that knows nothing of rolltrace.

An integration is an entry point of the group `rolltrace.integrations`: a function without arguments that must not
import its framework, but waits until the program does (`integrations.after_import`). `rolltrace run` looks them up once
and names them in an environment variable, so that no child process has to search its packages again.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from rolltrace._guard import caught

GROUP = "rolltrace.integrations"
INSTRUMENTS = "rolltrace.instruments"
"""Those of SDKs: objects that are called, and wait, as the function of an integration does."""
VARIABLE = "_ROLLTRACE_INTEGRATIONS"
"""MODULE:FUNCTION of each integration, separated by commas. Its being there says that `rolltrace run` began it all."""


WAITS_FOR = "_ROLLTRACE_WAITS_FOR"
"""The modules that they wait for, if all of them say so (`after_import.waiting_for`); see `_site/sitecustomize.py`."""


def installed_integrations(group: str = GROUP) -> dict[str, str]:
    """Name -> MODULE:FUNCTION of every integration, ours and those of other packages."""
    from importlib.metadata import entry_points  # slow to load

    return {each.name: each.value for each in sorted(entry_points(group=group), key=lambda each: each.name)}


def variables_of_integrations() -> dict[str, str]:
    """The environment variables by which the processes of a program install all integrations that there are here."""
    places = [*installed_integrations().values(), *installed_integrations(INSTRUMENTS).values()]
    waits: list[str] = []
    for place in places:
        try:
            modules: tuple[str, ...] = getattr(_function(place), "waits_for", ())
        except Exception:  # said by the process that installs it
            modules = ()
        if not modules:
            return {VARIABLE: ",".join(places)}
        waits += modules
    return {VARIABLE: ",".join(places), WAITS_FOR: ",".join(waits)}


def is_below_run() -> bool:
    """Whether this process was started by `rolltrace run`, or by one that was."""
    return VARIABLE in os.environ


def install_from_environment() -> None:
    """Install what `rolltrace run` named. One that fails costs itself alone."""
    for place in filter(None, os.environ.get(VARIABLE, "").split(",")):
        try:
            _function(place)()
        except Exception:
            caught(f"integration {place}")


def _function(place: str) -> Any:
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)
