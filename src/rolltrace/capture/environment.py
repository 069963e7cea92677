"""`trace_env`: an environment that records a transition for each of its steps, and is otherwise the one it wraps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Raw

from rolltrace.capture import scope
from rolltrace.capture.watch import FIRST, Converters, EnvCall, Watch
from rolltrace.errors import ConfigError

E = TypeVar("E")
_WATCHED = frozenset({*FIRST, "step"})
_EXAMPLES = {
    "state": "lambda env: env.board",
    "prompt": "lambda env: env.messages",
    "response": "lambda env, action: action.text",
    "reward_data": "lambda env, result: env.last_terms",
    "extra": "lambda env, result: {'grade': env.last_grade}",
}
_OURS = frozenset({"__copy__", "__deepcopy__", "__getstate__", "__setstate__"})
"""Not the environment's: a copy of a traced environment is a traced environment."""
_PASSED_ON = ("__enter__", "__exit__", "__aexit__", "__call__", "__len__", "__getitem__", "__contains__")
"""What Python looks up on the type of an object, and therefore not through `__getattr__`."""


def trace_env(
    env: E,
    *,
    state: Callable[[E], Any] | None = None,
    prompt: Callable[[E], Any] | None = None,
    response: Callable[[E, Any], Any] | None = None,
    reward_data: Callable[[E, Any], Any] | None = None,
    extra: Callable[[E, Any], Any] | None = None,
) -> E:
    """The environment, recording a transition for each step.

        env = trace_env(MyEnv(), state=lambda env: {"turn": env.turn}, prompt=lambda env: env.messages)

    For environments with `step` and with `reset` or `initial_observation`, each of them sync or async. A transition
    is recorded however a call ends: with a result, with an exception, by cancellation; for the first observation only
    if the episode ends there. It goes to the trajectory around the call, and outside of any to one of the episode's
    own. What the environment returns and raises is passed on unchanged. While tracing is off, and inside
    `rollout_trace_attr(trace=False)`, calls are only passed on.

    The functions say what to record where the environment's own values are not what people want to read: tokens, say.
    They are called only when tracing is on, and what they give is kept as it is then; one that raises is counted as an
    internal error, and the step is recorded without what it would have said.

    Args:
        env: The environment.
        state: Gives `env_state`: `state(env)`, before each step.
        prompt: Gives `prompt`, in the place of the observation: `prompt(env)`, before each step, and after a first
            observation that ends the episode.
        response: Gives `policy_response`, in the place of the action: `response(env, action)`, before each step.
        reward_data: Gives `reward_data`: `reward_data(env, result)`, with what the step returned.
        extra: Gives more of `extra`: `extra(env, result)`; a dict is added to what stands there.

    Raises:
        ConfigError: it has no such methods, or one of the others is no function.
    """
    if isinstance(env, type):
        name = env.__name__
        raise ConfigError(f"trace_env needs an environment, not the class {name}; write trace_env({name}(...))")
    if not callable(getattr(env, "step", None)) or not any(callable(getattr(env, name, None)) for name in FIRST):
        raise ConfigError(
            "trace_env needs an environment with `step` and with `reset` or `initial_observation`, "
            f"which {type(env).__name__} has not; record its steps with trajectory.transition(...)"
        )
    converters = Converters(state, prompt, response, reward_data, extra)
    for name, function in converters._asdict().items():
        if function is not None and not callable(function):
            raise ConfigError(f"{name} must be a function such as `{_EXAMPLES[name]}`, not {function!r:.100}")
    if isinstance(env, TracedEnv):
        watch = _watch_of(env)
        env = watch.env
        converters = watch.convert._replace(
            **{name: new for name, new in converters._asdict().items() if new is not None}
        )
    wrapped: E = _wrapped(Watch(env, converters))
    return wrapped


class TracedEnv:
    """What `trace_env` gives. It says it is of the environment's class, and has all its attributes."""

    __slots__ = ("__weakref__", "_rolltrace_watch", *sorted(_WATCHED))
    """The watched methods, once they were asked for: a slot is found at once, where `__getattr__` comes last."""

    def __init__(self, watch: Watch) -> None:
        object.__setattr__(self, "_rolltrace_watch", watch)

    def __getattr__(self, name: str) -> Any:
        if name in _OURS:
            raise AttributeError(name)
        watch = _watch_of(self)
        value = getattr(watch.env, name)
        if name in _WATCHED and callable(value):
            value = _shell(watch, name, value)
            object.__setattr__(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_watch_of(self).env, name, value)
        self._ask_anew(name)

    def __delattr__(self, name: str) -> None:
        delattr(_watch_of(self).env, name)
        self._ask_anew(name)

    def _ask_anew(self, name: str) -> None:
        if name in _WATCHED:
            try:
                object.__delattr__(self, name)
            except AttributeError:  # nobody asked for it yet
                pass

    def __dir__(self) -> list[str]:
        return dir(_watch_of(self).env)

    def __repr__(self) -> str:
        return f"trace_env({_watch_of(self).env!r})"

    def __reduce__(self) -> Any:
        watch = _watch_of(self)
        beside = {name: bytes(raw) for name, raw in watch.beside.items()}
        observed = None if watch.observed is None else bytes(watch.observed)
        return _again, (watch.env, watch.convert, observed, beside)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(_watch_of(self).env)


def _watch_of(env: Any) -> Watch:
    watch: Watch = object.__getattribute__(env, "_rolltrace_watch")
    return watch


def _again(env: Any, convert: Converters, observed: bytes | None, beside: dict[str, bytes]) -> Any:
    """A copy, which sees what the original saw last."""
    watch = Watch(env, convert)
    watch.observed = None if observed is None else Raw(observed)
    watch.beside = {name: Raw(raw) for name, raw in beside.items()}
    return _wrapped(watch)


def _wrapped(watch: Watch) -> Any:
    kind: type = type(watch.env)
    return _class_for(kind)(watch)


@functools.lru_cache(maxsize=256)
def _class_for(kind: type) -> type[TracedEnv]:
    """A class with those special methods that the environment has: others ask for them to know what it can do."""
    defined = {name for base in kind.__mro__ for name in vars(base)}  # not `hasattr`: every class can be called
    methods: dict[str, Any] = {name: _passing_on(name) for name in _PASSED_ON if name in defined}
    if "__aenter__" in defined:
        methods["__aenter__"] = _aenter
    return type(f"Traced{kind.__name__}", (TracedEnv,), {"__slots__": (), **methods})


def _passing_on(name: str) -> Any:
    def pass_on(self: TracedEnv, /, *args: Any, **kwargs: Any) -> Any:
        env = _watch_of(self).env
        result = getattr(env, name)(*args, **kwargs)
        return self if result is env else result  # `with trace_env(env) as env` is traced too

    return pass_on


async def _aenter(self: TracedEnv) -> Any:
    env = _watch_of(self).env
    result = await env.__aenter__()
    return self if result is env else result


def _shell(watch: Watch, name: str, method: Any) -> Any:
    make = _async_shell if inspect.iscoroutinefunction(method) else _plain_shell
    return functools.wraps(method, updated=())(make(watch, name))


def _plain_shell(watch: Watch, name: str) -> Any:
    env = watch.env

    def shell(*args: Any, **kwargs: Any) -> Any:
        method = getattr(env, name)  # at each call: it may be replaced
        if scope.recorder is None or scope.current.get() is scope.MUTED:
            return method(*args, **kwargs)
        call = EnvCall(watch, name, args, kwargs)
        try:
            result = method(*args, **kwargs)
            if inspect.isawaitable(result):
                return call.follow(result)
            call.returned(result)
        except BaseException as failure:
            call.failed(failure)
            raise
        return result

    return shell


def _async_shell(watch: Watch, name: str) -> Any:
    env = watch.env

    async def shell(*args: Any, **kwargs: Any) -> Any:
        method = getattr(env, name)
        if scope.recorder is None or scope.current.get() is scope.MUTED:
            return await method(*args, **kwargs)
        call = EnvCall(watch, name, args, kwargs)
        try:
            result = await method(*args, **kwargs)
            call.returned(result)
        except BaseException as failure:
            call.failed(failure)
            raise
        return result

    return shell
