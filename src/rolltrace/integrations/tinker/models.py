"""Calls of other models than the policy, and of tools: ops of their own kind, in the rollout or group around them.

Outside of any they are not recorded: a rollout that nobody asked for would come of each.
"""

from __future__ import annotations

import functools
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.tinker.rollout import current
from rolltrace.integrations.tinker.seams import replace, replace_in_subclasses
from rolltrace.record import OpKind


def change_completers(module: Any) -> None:
    """Change `tinker_cookbook.completers`: graders, answerers, opponents."""
    replace_in_subclasses(module.MessageCompleter, "__call__", _completing)


def change_preference_models(module: Any) -> None:
    """Change `tinker_cookbook.preference.types`."""
    replace_in_subclasses(module.PreferenceModel, "__call__", _comparing)


def change_tools(module: Any) -> None:
    """Change `tinker_cookbook.tool_use.tools`."""
    replace(module, "handle_tool_call", _handling)


class _Named:
    """One function, traced under each name that its calls have."""

    def __init__(self, function: Any, kind: OpKind, **selected: Any) -> None:
        self._function = function
        self._kind = kind
        self._selected = selected
        self._traced: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        traced = self._traced.get(name)
        if traced is None:
            trace = rolltrace.rollout_trace_op(name=name, kind=self._kind, **self._selected)
            traced = self._traced[name] = trace(self._function)
        return traced


def _is_inside(kind: str) -> bool:
    """Whether a call is recorded: inside a rollout or group, and not inside another call of the kind."""
    place = scope.current.get()
    if scope.recorder is None or place is None or place is scope.MUTED:
        return False
    call = getattr(place, "call", None)
    return call is None or call.kind != kind


def _completing(theirs: Any) -> Any:
    variants = _Named(theirs, "aux_llm")

    async def complete(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_inside("aux_llm"):
            return await theirs(self, *args, **kwargs)
        return await variants.of(_name_of(self))(self, *args, **kwargs)

    return complete


def _name_of(completer: Any) -> str:
    """What the environment calls it: `grader_llm`, `answerer`, `opponent_policy`."""
    try:
        rollout = current.get()
        fields = {} if rollout is None else vars(rollout.env)
        return next((name for name, value in fields.items() if value is completer), type(completer).__name__)
    except Exception:
        caught("tinker model")
        return "model"


def _comparing(theirs: Any) -> Any:
    variants = _Named(theirs, "reward")

    async def compare(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_inside("reward"):
            return await theirs(self, *args, **kwargs)
        return await variants.of("comparison")(self, *args, **kwargs)

    return compare


def _handling(theirs: Any) -> Any:
    variants = _Named(theirs, "tool", inputs=_arguments, outputs=_results)

    @functools.wraps(theirs)
    async def handle_tool_call(tools: Any, tool_call: Any) -> Any:
        if not _is_inside("tool"):
            return await theirs(tools, tool_call)
        return await variants.of(_tool_name(tool_call))(tools, tool_call)

    return handle_tool_call


def _tool_name(tool_call: Any) -> str:
    name = getattr(getattr(tool_call, "function", None), "name", None)
    return name if isinstance(name, str) and name else "tool"


def _arguments(arguments: dict[str, Any]) -> Any:
    call = arguments["tool_call"]
    return {"arguments": call.function.arguments, "tool_call_id": call.id}


def _results(result: Any) -> Any:
    return {"messages": result.messages, "should_stop": result.should_stop, "metrics": result.metrics}
