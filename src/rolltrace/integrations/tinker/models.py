"""Calls of other models than the policy, and of tools: ops of their own kind, in the rollout or group around them.

Outside of any they are not recorded: a rollout that nobody asked for would come of each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.seams import Wrap, replace, replace_in_subclasses
from rolltrace.integrations.tinker.rollout import current
from rolltrace.record import OpKind


def change_completers(module: Any) -> None:
    """Change `tinker_cookbook.completers`: graders, answerers, opponents."""
    replace_in_subclasses(module.MessageCompleter, "__call__", _as_op("aux_llm", _name_completer))


def change_preference_models(module: Any) -> None:
    """Change `tinker_cookbook.preference.types`."""
    replace_in_subclasses(module.PreferenceModel, "__call__", _as_op("reward", lambda model, *_: "comparison"))


def change_tools(module: Any) -> None:
    """Change `tinker_cookbook.tool_use.tools`."""
    replace(module, "handle_tool_call", _as_op("tool", _name_tool, inputs=_arguments, outputs=_results))


def _as_op(kind: OpKind, name_call: Callable[..., str], **selected: Any) -> Wrap:
    """A coroutine function as an op, under each name that its calls turn out to have."""

    def wrap(theirs: Any) -> Any:
        ops: dict[str, Any] = {}

        @functools.wraps(theirs)
        async def call(*args: Any, **kwargs: Any) -> Any:
            if not _is_inside(kind):
                return await theirs(*args, **kwargs)
            name = name_call(*args, *kwargs.values())
            if name not in ops:
                ops[name] = rolltrace.rollout_trace_op(name=name, kind=kind, **selected)(theirs)
            return await ops[name](*args, **kwargs)

        return call

    return wrap


def _is_inside(kind: str) -> bool:
    """Whether a call is recorded: inside a rollout or group, and not inside another call of the kind."""
    place = scope.current.get()
    if scope.recorder is None or place is None or place is scope.MUTED:
        return False
    call = getattr(place, "call", None)
    return call is None or call.kind != kind


def _name_completer(completer: Any, *_: Any) -> str:
    """What the environment calls it: `grader_llm`, `answerer`, `opponent_policy`."""
    try:
        rollout = current.get()
        fields = {} if rollout is None else vars(rollout.env)
        return next((name for name, value in fields.items() if value is completer), type(completer).__name__)
    except Exception:
        caught("tinker model")
        return "model"


def _name_tool(tools: Any, tool_call: Any = None) -> str:
    name = getattr(getattr(tool_call, "function", None), "name", None)
    return name if isinstance(name, str) and name else "tool"


def _arguments(arguments: dict[str, Any]) -> Any:
    call = arguments["tool_call"]
    return {"arguments": call.function.arguments, "tool_call_id": call.id}


def _results(result: Any) -> Any:
    return {"messages": result.messages, "should_stop": result.should_stop, "metrics": result.metrics}
