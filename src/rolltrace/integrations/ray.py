"""The trajectory goes along with calls of Ray actors and tasks: `actor.method.remote(...)`, `function.remote(...)`.

Every method of an actor takes a hidden `_ray_trace_ctx`, which Ray made for OpenTelemetry, and drops it if that is off.
We put a word of our own into it, and give the methods of actor classes made from now on a shell that reads it. So an
actor that was made without us, or has no rolltrace at all, is called as before. A function gets such a shell when it is
first called with tracing on, which is when Ray sends it to the workers.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import current_context, scope

HIDDEN = "_ray_trace_ctx"
"""The argument of actors' methods."""
OURS = "rolltrace"
OF_TASKS = "_rolltrace"
"""The argument of functions, where Ray has none of its own as long as OpenTelemetry is off."""


def follow_actors(module: Any) -> None:
    """Change `ray.actor`. Does nothing until tracing is on and an actor is called within a trajectory."""
    inject, call = module._inject_tracing_into_class, module.ActorHandle._actor_method_call
    if _is_ours(call):
        return

    @functools.wraps(inject)
    def injected(cls: Any) -> Any:
        actor_class = inject(cls)
        try:
            _wrap_methods(cls)
        except Exception:
            caught("ray actor class")
        return actor_class

    @functools.wraps(call)
    def carrying(self: Any, method_name: str, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        if scope.recorder is not None and scope.current.get() is not None:
            kwargs = _with_context(self, method_name, kwargs)
        return call(self, method_name, args, kwargs, *more, **options)

    carrying.__rolltrace_follows__ = True  # type: ignore[attr-defined]
    module._inject_tracing_into_class = injected
    module.ActorHandle._actor_method_call = carrying


def _with_context(handle: Any, method_name: str, kwargs: Any) -> Any:
    try:
        parameters = handle._ray_method_signatures.get(method_name) or ()
        if handle._ray_is_cross_language or not any(each.name == HIDDEN for each in parameters):
            return kwargs
        arguments = dict(kwargs or {})
        arguments[HIDDEN] = {**(arguments.get(HIDDEN) or {}), **_carried()}
        return arguments
    except Exception:
        caught("ray call")
        return kwargs


def follow_tasks(module: Any) -> None:
    """Change `ray.remote_function`, in the same way."""
    remote = module.RemoteFunction._remote
    if _is_ours(remote):
        return

    @functools.wraps(remote)
    def carrying(self: Any, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        if scope.recorder is not None:
            kwargs = _with_context_of_task(self, kwargs)
        return remote(self, args, kwargs, *more, **options)

    carrying.__rolltrace_follows__ = True  # type: ignore[attr-defined]
    module.RemoteFunction._remote = carrying


def _is_ours(func: Any) -> bool:
    return getattr(func, "__rolltrace_follows__", False)


def _with_context_of_task(remote: Any, kwargs: Any) -> Any:
    try:
        if remote._function_signature is None and not remote._is_cross_language:
            remote._function = _following_task(remote._function)
        if scope.current.get() is None or not _is_ours(remote._function):
            return kwargs
        return {**(kwargs or {}), OF_TASKS: _carried()}
    except Exception:
        caught("ray task")
        return kwargs


def _carried() -> dict[str, Any]:
    return {OURS: current_context()}


def _wrap_methods(cls: Any) -> None:
    for name, method in list(vars(cls).items()):
        if getattr(method, "__ray_tracing_wrapped__", False) and not _is_ours(method):
            shell = _following(method)
            functools.update_wrapper(shell, method)
            shell.__rolltrace_follows__ = True
            setattr(cls, name, shell)


def _following(method: Any) -> Any:
    """A method that continues the caller's trajectory.

    It travels to the actor by value, so it imports what it needs there, and does without if that fails.
    """

    def following(self: Any, *args: Any, _ray_trace_ctx: Any = None, **kwargs: Any) -> Any:
        if not _ray_trace_ctx or "rolltrace" not in _ray_trace_ctx:
            return method(self, *args, _ray_trace_ctx=_ray_trace_ctx, **kwargs)
        try:
            from rolltrace.integrations.ray import arrived
        except ImportError:
            return method(self, *args, **kwargs)
        with arrived(_ray_trace_ctx):
            return method(self, *args, _ray_trace_ctx=_ray_trace_ctx or None, **kwargs)

    async def following_async(self: Any, *args: Any, _ray_trace_ctx: Any = None, **kwargs: Any) -> Any:
        if not _ray_trace_ctx or "rolltrace" not in _ray_trace_ctx:
            return await method(self, *args, _ray_trace_ctx=_ray_trace_ctx, **kwargs)
        try:
            from rolltrace.integrations.ray import arrived
        except ImportError:
            return await method(self, *args, **kwargs)
        with arrived(_ray_trace_ctx):
            return await method(self, *args, _ray_trace_ctx=_ray_trace_ctx or None, **kwargs)

    return following_async if inspect.iscoroutinefunction(method) else following


def _following_task(function: Any) -> Any:
    """A function that continues the caller's trajectory; as it is if it goes on after it has returned."""
    if inspect.isgeneratorfunction(function):
        return function

    @functools.wraps(function)
    def following(*args: Any, _rolltrace: Any = None, **kwargs: Any) -> Any:
        if not _rolltrace:
            return function(*args, **kwargs)
        try:
            from rolltrace.integrations.ray import arrived
        except ImportError:
            return function(*args, **kwargs)
        with arrived(_rolltrace):
            return function(*args, **kwargs)

    hidden = inspect.Parameter(OF_TASKS, inspect.Parameter.KEYWORD_ONLY, default=None)
    signature = inspect.signature(function)
    places = list(signature.parameters.values())
    at = len(places) - (bool(places) and places[-1].kind is inspect.Parameter.VAR_KEYWORD)
    following.__signature__ = signature.replace(parameters=[*places[:at], hidden, *places[at:]])  # type: ignore[attr-defined]
    following.__rolltrace_follows__ = True  # type: ignore[attr-defined]
    return following


def arrived(carried: dict[str, Any]) -> Any:
    """Continue the trajectory of a caller, and take our word out. If tracing is off here, it is turned on as there."""
    from rolltrace.capture import use_context

    context = carried.pop(OURS)
    try:
        follow_actors(sys.modules["ray.actor"])  # it goes on from here
        follow_tasks(sys.modules["ray.remote_function"])
    except Exception:
        caught("ray actor")
    return use_context(context)
