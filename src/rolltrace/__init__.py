"""Record what happens inside agentic-RL rollouts, and look at it.

import rolltrace

rolltrace.init("my-project", "my-experiment")

@rolltrace.rollout_trace_op
async def call_tool(name, arguments): ...

with rolltrace.rollout_trace_attr(sample_index=7, step=1, rollout_n=0):
    await call_tool("search", {"query": "..."})
"""

import atexit as _atexit
import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from rolltrace._later import load_later as _load_later
from rolltrace.errors import RolltraceError

if _TYPE_CHECKING:
    from rolltrace._entry import flush, init, open
    from rolltrace._runtime import shutdown, stats
    from rolltrace.capture import (
        RolloutTrace,
        current_context,
        rollout_trace_attr,
        rollout_trace_group,
        rollout_trace_op,
        score,
        trace_env,
        use_context,
    )
    from rolltrace.config import RolloutTraceConfig
    from rolltrace.instruments import instrument
    from rolltrace.proxy import proxied_env
    from rolltrace.view import _Callable

    view: _Callable

_LATER, _load = _load_later(
    __name__,
    {
        "_entry": "flush init open",
        "_runtime": "shutdown stats",
        "capture": "RolloutTrace current_context rollout_trace_attr rollout_trace_group rollout_trace_op score "
        "trace_env use_context",
        "config": "RolloutTraceConfig",
        "instruments": "instrument",
        "proxy": "proxied_env",
    },
)
"""Name -> its module, loaded when it is asked for: the command line, which imports this too, records nothing."""

__all__ = [
    "RolloutTrace",
    "RolloutTraceConfig",
    "RolltraceError",
    "current_context",
    "flush",
    "init",
    "instrument",
    "open",
    "proxied_env",
    "rollout_trace_attr",
    "rollout_trace_group",
    "rollout_trace_op",
    "score",
    "shutdown",
    "stats",
    "trace_env",
    "use_context",
    "view",
]


_PACKAGES = ("backends", "capture", "instruments", "proxy")
"""Packages that are there as attributes, without an import of their own."""


def __getattr__(name: str) -> _Any:
    if name == "__version__":  # asked for rarely; importlib.metadata is slow to load
        return _import_module("importlib.metadata").version("rolltrace")
    if name == "view":  # a package that can be called
        return _import_module("rolltrace.view")
    if name in _LATER or name in _PACKAGES:
        _import_module("rolltrace._entry")  # all that records, whichever of it is used first
    if name in _PACKAGES:
        return _import_module(f"rolltrace.{name}")
    return globals()[name] if name in globals() else _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@_atexit.register
def _shutdown_at_exit() -> None:
    # Registered at the import and not at the first use, so that a program's own handlers, which may still record, run
    # before it.
    runtime = _sys.modules.get("rolltrace._runtime")
    if runtime is not None:
        runtime.shutdown()


if any(name.startswith("ROLLTRACE_") for name in _os.environ) and (
    _os.environ.get("ROLLTRACE_BACKEND") or _import_module("rolltrace.settings").unknown_variables()
):
    _import_module("rolltrace._entry").init_from_environment()
