"""Record what happens inside agentic-RL rollouts, and look at it.

import rolltrace

rolltrace.init("my-project", "my-experiment")

@rolltrace.rollout_trace_op
async def call_tool(name, arguments): ...

with rolltrace.rollout_trace_attr(sample_index=7, step=1, rollout_n=0):
    await call_tool("search", {"query": "..."})
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from rolltrace._entry import flush, init, init_from_environment, open
from rolltrace._runtime import Stats, shutdown, stats
from rolltrace.capture import (
    RolloutTrace,
    TraceGroup,
    TrajectoryHandle,
    amend_transition,
    backfill,
    choose_samples,
    current_context,
    next_rollout_n,
    rollout_trace_attr,
    rollout_trace_group,
    rollout_trace_op,
    score,
    trace_env,
    use_context,
)
from rolltrace.config import RolloutTraceConfig
from rolltrace.errors import RolltraceError

__all__ = [
    "RolloutTrace",
    "RolloutTraceConfig",
    "RolltraceError",
    "Stats",
    "TraceGroup",
    "TrajectoryHandle",
    "amend_transition",
    "backfill",
    "choose_samples",
    "current_context",
    "flush",
    "init",
    "next_rollout_n",
    "open",
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

if _TYPE_CHECKING:
    from rolltrace.view import _Callable

    view: _Callable


def __getattr__(name: str) -> _Any:
    if name == "__version__":  # asked for rarely; importlib.metadata is slow to load
        return _import_module("importlib.metadata").version("rolltrace")
    if name == "view":  # callable; loads the web server and the column libraries
        return _import_module("rolltrace.view")
    raise AttributeError(f"module 'rolltrace' has no attribute {name!r}")


init_from_environment()
del init_from_environment
