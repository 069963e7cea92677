"""verl's own words for tracing: `RolloutTraceConfig`, `rollout_trace_attr`, `rollout_trace_op`.

With a backend of verl's own, or none, each goes to verl's code. With ours, the op and the trajectory are rolltrace's.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import SAMPLE_LIMIT, scope
from rolltrace.errors import BackendError
from rolltrace.integrations.installed import is_below_run
from rolltrace.integrations.seams import replace_in_subclasses
from rolltrace.integrations.verl.framework import RELEASES
from rolltrace.integrations.verl.variants import Variants
from rolltrace.record import coordinate

BACKEND = "rolltrace"


@dataclass
class Rollout:
    """What is known of a rollout before it begins, besides what verl says of it."""

    tags: dict[str, Any] = field(default_factory=dict)
    trajectory: rolltrace.capture.TrajectoryHandle | None = None
    """Its handle, once it has begun."""
    left_out: str | None = None
    """Why the trainer will not train on it, if that is known already."""
    left_out_if_failed: str | None = None
    """The same, of a trainer that goes on if a rollout fails."""


rollout: ContextVar[Rollout | None] = ContextVar("rolltrace_verl_rollout", default=None)


class Decision(NamedTuple):
    """What is decided for the batch that a rollout belongs to."""

    chosen: set[Any] | None = None
    """The samples that are traced; None for all."""
    numbers: Sequence[int] = ()
    """Which rollout of its sample each row of the whole batch is; nothing if nobody knows the whole batch."""
    left_out: Mapping[int, str] = MappingProxyType({})
    """Rows that the trainer will throw away: row -> why."""


NOTHING = Decision()
decision: ContextVar[Decision] = ContextVar("rolltrace_verl_decision", default=NOTHING)

_config: Any = None
"""verl's `RolloutTraceConfig`."""


@functools.lru_cache
def names_of(backend: Any) -> tuple[str, ...] | None:
    """The backends that `rolltrace+NAME+NAME` asks for; None if it does not begin with `rolltrace`."""
    names = tuple(name.strip() for name in backend.split("+")) if isinstance(backend, str) else ()
    return names if names and names[0] == BACKEND else None


def asked_backend(configured: Any) -> Any:
    """The backend of a config or, if it has none, that of `rolltrace run`."""
    return BACKEND if configured is None and is_below_run() else configured


def is_on() -> bool:
    """Whether verl was told to trace with us."""
    return scope.recorder is not None and _config is not None and names_of(_config.get_backend()) is not None


def change(module: Any) -> None:
    """Change `verl.utils.rollout_trace`."""
    global _config
    config, verls_op, verls_attr = module.RolloutTraceConfig, module.rollout_trace_op, module.rollout_trace_attr
    try:
        _change_config(config)
    except Exception:
        _refuse(config)
        raise
    _config = config
    module.rollout_trace_op = functools.wraps(verls_op)(lambda func: traced(func, verls_op(func)))
    module.rollout_trace_attr = _attr(verls_attr)


def change_tools(module: Any) -> None:
    """Change `verl.tools.base_tool`: verl decorates `BaseTool.execute` only, which every real tool overrides.

    An exception in a tool becomes a text for the model, so that it can be seen only here, inside.
    """
    trace_subclasses(module.BaseTool, "execute")


def change_function_tools(module: Any) -> None:
    """Change `verl.tools.function_tool`, whose call verl does not trace."""
    module.FunctionTool.call = traced(module.FunctionTool.call, module.FunctionTool.call)


def change_interactions(module: Any) -> None:
    """Change `verl.interactions.base`, in the releases of verl that have it."""
    trace_subclasses(module.BaseInteraction, "generate_response")


def trace_subclasses(base: Any, method: str) -> None:
    """Trace a method of the class and of all its subclasses, those to come too."""
    replace_in_subclasses(base, method, lambda own: traced(own, own))


def _change_config(config: Any) -> None:
    verls_init, verls_reset = config.init.__func__, config.reset.__func__
    order = inspect.signature(verls_init)
    if not {"project_name", "experiment_name", "backend", "token2text"} <= set(order.parameters):
        raise TypeError(f"RolloutTraceConfig.init takes {order}")

    @functools.wraps(verls_init)
    def init(cls: Any, *args: Any, **kwargs: Any) -> None:
        bound = order.bind(cls, *args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        arguments["backend"] = asked_backend(arguments["backend"])
        names = names_of(arguments["backend"])
        if names is not None and not cls.get_instance()._initialized:
            limit = arguments.get("max_samples_per_step_per_worker")
            turn_on(names, arguments["project_name"], arguments["experiment_name"], arguments["token2text"], limit)
            # verl would choose samples at random, and move the global random state by that.
            bound.arguments["max_samples_per_step_per_worker"] = None
        args, kwargs = bound.args[1:], bound.kwargs
        verls_init(cls, *args, **kwargs)

    @functools.wraps(verls_reset)
    def reset(cls: Any) -> None:
        if is_on():
            rolltrace.shutdown()
        verls_reset(cls)

    config.init, config.reset = classmethod(init), classmethod(reset)


def _refuse(config: Any) -> None:
    """Where nothing can be traced, whoever asks for it must learn that, and not from an empty store."""
    verls_init = config.init.__func__

    @functools.wraps(verls_init)
    def init(cls: Any, *args: Any, **kwargs: Any) -> Any:
        asked = next((each for each in (*args, *kwargs.values()) if isinstance(each, str) and names_of(each)), None)
        if asked is not None:
            raise BackendError(f"trace.backend={asked} cannot work: {'; '.join(RELEASES.complaints())}")
        return verls_init(cls, *args, **kwargs)

    config.init = classmethod(init)


def turn_on(names: tuple[str, ...], project: Any, experiment: Any, token2text: Any, limit: Any) -> None:
    """As `rolltrace.init`, with verl's settings.

    Raises:
        BackendError: one of the backends is not installed.
    """
    RELEASES.warn()
    rolltrace.init(
        project or None,
        experiment or None,
        list(names),
        token2text=bool(token2text),
        max_samples_per_step_per_worker=limit,
    )


def _attr(verls_attr: Any) -> Any:
    order = inspect.signature(verls_attr)

    @contextlib.contextmanager
    @functools.wraps(inspect.unwrap(verls_attr))
    def rollout_trace_attr(*args: Any, **kwargs: Any) -> Iterator[Any]:
        if not is_on():
            with verls_attr(*args, **kwargs) as theirs:
                yield theirs
            return
        bound = order.bind(*args, **kwargs)
        about = rollout.get()
        if about is not None and about.trajectory is not None:
            about = None  # one inside the rollout, of the user's own
        with verls_attr(*args, **kwargs), _trajectory(dict(bound.arguments), about) as trajectory:
            if about is not None:
                about.trajectory = trajectory
            yield trajectory

    return rollout_trace_attr


def _trajectory(arguments: dict[str, Any], about: Rollout | None) -> rolltrace.rollout_trace_attr:
    arguments["trace"] = arguments.get("trace", True) and _is_chosen(arguments)
    return rolltrace.rollout_trace_attr(**arguments, **({} if about is None else about.tags))


def _is_chosen(arguments: dict[str, Any]) -> bool:
    """Whether the sample is one of those that are traced of its batch. One that is not is counted."""
    try:
        of_batch, recorder = decision.get().chosen, scope.recorder
        if of_batch is None or recorder is None or coordinate(arguments.get("sample_index")) in of_batch:
            return True
        recorder.sink.lose(SAMPLE_LIMIT, arguments.get("step"))
        return False
    except Exception:
        caught("verl sample")
        return True


def traced(func: Any, untraced: Any) -> Any:
    """The function, traced by us when we are on, and else what verl has made of it."""
    variants = Variants(func)

    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def shell(*args: Any, **kwargs: Any) -> Any:
            return await (variants.of(args) if is_on() else untraced)(*args, **kwargs)
    else:

        @functools.wraps(func)
        def shell(*args: Any, **kwargs: Any) -> Any:
            return (variants.of(args) if is_on() else untraced)(*args, **kwargs)

    shell.__rolltrace__ = True  # type: ignore[attr-defined]
    return shell
