"""The trajectory goes along with calls of Ray actors: `actor.method.remote(...)` inside an op.

Every method of an actor takes a hidden `_ray_trace_ctx`, which Ray made for OpenTelemetry, and drops it if that is off.
We put a word of our own into it, and give the methods of actor classes made from now on a shell that reads it. So an
actor that was made without us, or has no rolltrace at all, is called as before.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from rolltrace import _runtime
from rolltrace._guard import caught
from rolltrace.capture import current_context, scope

HIDDEN = "_ray_trace_ctx"
OURS = "rolltrace"
_SHARED = (
    "project_name", "experiment_name", "backend", "token2text", "max_samples_per_step_per_worker", "sample_seed",
    "drain", "checks",
)  # fmt: skip
"""The settings that an actor takes over, if it has none."""


def follow_actors(module: Any) -> None:
    """Change `ray.actor`. Does nothing until tracing is on and an actor is called within a trajectory."""
    inject, call = module._inject_tracing_into_class, module.ActorHandle._actor_method_call

    @functools.wraps(inject)
    def injected(cls: Any) -> Any:
        made = inject(cls)
        try:
            _wrap_methods(cls)
        except Exception:
            caught("ray actor class")
        return made

    @functools.wraps(call)
    def carrying(self: Any, method_name: str, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        if scope.recorder is not None and scope.current.get() is not None:
            kwargs = _with_context(self, method_name, kwargs)
        return call(self, method_name, args, kwargs, *more, **options)

    module._inject_tracing_into_class = injected
    module.ActorHandle._actor_method_call = carrying


def _with_context(handle: Any, method_name: str, kwargs: Any) -> Any:
    try:
        parameters = handle._ray_method_signatures.get(method_name) or ()
        if handle._ray_is_cross_language or not any(each.name == HIDDEN for each in parameters):
            return kwargs
        given = dict(kwargs or {})
        given[HIDDEN] = {**(given.get(HIDDEN) or {}), OURS: [current_context(), _settings()]}
        return given
    except Exception:
        caught("ray call")
        return kwargs


def _settings() -> dict[str, Any]:
    active = _runtime.active()
    if active is None:
        return {}
    found = {name: getattr(active.settings, name) for name in _SHARED}
    return {**found, "backend": list(active.settings.backend or ()), "store": str(active.settings.store)}


def _wrap_methods(cls: Any) -> None:
    for name, method in list(vars(cls).items()):
        if getattr(method, "__ray_tracing_wrapped__", False) and not getattr(method, "__rolltrace_follows__", False):
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


def arrived(carried: dict[str, Any]) -> Any:
    """Continue the trajectory of a caller; turn tracing on as it is there, if it is off here. Takes our word out."""
    from rolltrace.capture import use_context

    context, settings = carried.pop(OURS)
    if _runtime.active() is None and settings:
        try:
            _runtime.init(**settings)
        except Exception:
            caught("ray actor")
    return use_context(context)
