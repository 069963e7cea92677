"""What rolltrace says by itself at its start: where traces go, and which surroundings keep it from working."""

from __future__ import annotations

import os
import shlex
import sys

from rolltrace import _guard, _job
from rolltrace._address import address_in
from rolltrace._frameworks import frameworks
from rolltrace.settings import Settings, unknown_variables

_ANNOUNCED = "_ROLLTRACE_ANNOUNCED"
"""The environment variable that keeps child processes from announcing once more where traces go."""
warned: set[str] = set()
"""What was warned of in this process."""


def announce(settings: Settings) -> None:
    """Say where traces go: once in a job, by its first process."""
    if settings.quiet or _job.is_child() or os.environ.get(_ANNOUNCED, str(os.getpid())) != str(os.getpid()):
        return
    os.environ[_ANNOUNCED] = str(os.getpid())
    if sys.stderr is None:
        return
    store = address_in(settings.store).url
    where = "" if settings.store == Settings().store.expanduser() else f" {shlex.quote(store)}"
    sys.stderr.write(
        f"rolltrace: recording {settings.project_name} / {settings.experiment_name} in {store} "
        f"(run {settings.run}); look with: rolltrace ls{where}\n"
    )


def warn_of_unknown_variables() -> None:
    for name, near in unknown_variables().items():
        hint = f"; did you mean {near[0]}?" if near else ""
        _warn_once(name, f"unknown environment variable {name}{hint}")


def warn_of_frameworks() -> None:
    """A framework that is imported but would not be traced."""
    for framework in frameworks():
        message = framework.warning()
        if message is not None:
            _warn_once(framework.name, message)


def _warn_once(about: str, message: str) -> None:
    if about not in warned:
        warned.add(about)
        _guard.logger.warning("%s", message)
