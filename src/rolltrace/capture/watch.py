"""Watches one environment: what it showed the policy last, and each call of it from before to after.

Everything is encoded at the moment it counts: an observation when the environment returns it, the action and the state
before `step` runs. Nothing here can raise; what the environment returns and raises is the caller's, unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, NamedTuple

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.capture.outcome import Outcome, of_first, of_step
from rolltrace.capture.recorder import Recorder
from rolltrace.capture.trajectory import TrajectoryHandle, rollout_trace_attr
from rolltrace.capture.transition import encoded_trace

FIRST = ("reset", "initial_observation")
"""What begins an episode."""


class Converters(NamedTuple):
    """Functions of the user's that say what to record; see `trace_env`."""

    state: Callable[[Any], Any] | None = None
    prompt: Callable[[Any], Any] | None = None
    response: Callable[[Any, Any], Any] | None = None
    reward_data: Callable[[Any, Any], Any] | None = None
    extra: Callable[[Any, Any], Any] | None = None


class Watch:
    """What is known of one environment between its calls."""

    def __init__(self, env: Any, convert: Converters) -> None:
        self.env = env
        self.convert = convert
        self.observed: Raw | None = None
        """What the policy sees now, as it was when the environment returned it."""
        self.beside: dict[str, Raw] = {}
        """What came with it."""
        self._own: _Episode | None = None

    def trajectory(self, recorder: Recorder, *, first: bool) -> TrajectoryHandle:
        """The one around this call; outside of any, one of the episode's own, so that nothing is lost."""
        place = scope.current.get()
        if place is not None and place._trajectory is not None:
            return place._trajectory
        if first or self._own is None or self._own.recorder is not recorder:
            self.end_episode(None)
            self._own = _Episode(self, recorder)
        return self._own.handle

    def observe(self, recorder: Recorder, outcome: Outcome) -> None:
        observation = outcome.observation
        self.observed = None if observation is None else Raw(recorder.snapshot(observation))
        beside = {name: value for name, value in outcome.beside.items() if value is not None}
        self.beside = {name: Raw(recorder.snapshot(value)) for name, value in beside.items()}

    def end_episode(self, failure: BaseException | None) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.end(failure)


class _Episode:
    """A trajectory without coordinates. It is over when the episode is, or when its environment is forgotten."""

    def __init__(self, watch: Watch, recorder: Recorder) -> None:
        self.recorder = recorder
        self._entry = rollout_trace_attr(name=type(watch.env).__name__)
        # In a context of its own: what the caller does between two steps does not belong to it.
        self.handle: TrajectoryHandle = copy_context().run(self._entry.__enter__)
        self._end = weakref.finalize(watch, _leave, self._entry, recorder, None)

    def end(self, failure: BaseException | None) -> None:
        self._end.detach()
        _leave(self._entry, self.recorder, failure)


def _leave(entry: rollout_trace_attr, recorder: Recorder, failure: BaseException | None) -> None:
    if scope.recorder is recorder:  # else it was shut down meanwhile, and nobody takes the record
        entry.__exit__(type(failure) if failure else None, failure, None)


class EnvCall:
    """One call of `reset`, `initial_observation` or `step` that is going on."""

    def __init__(self, watch: Watch, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._watch = watch
        self._name = name
        self._recorder: Recorder | None = None
        """None when this call is not recorded, and once it has ended."""
        try:
            recorder = scope.recorder
            if recorder is None:
                return
            self._handle = watch.trajectory(recorder, first=name in FIRST)
            if not self._handle.traced:
                return
            self._parts: dict[str, Raw] = {}
            self._extra: dict[str, Any] = {}
            if name not in FIRST:
                self._before_step(recorder, args, kwargs)
            elif args or kwargs:
                self._extra["reset_arguments"] = Raw(recorder.snapshot({"args": args, **kwargs} if args else kwargs))
            self._recorder = recorder
        except Exception:
            caught("trace_env")

    def _before_step(self, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        watch = self._watch
        self._prompt(recorder)
        self._extra.update(watch.beside)
        rest = dict(kwargs)
        if args:
            action, others = args[0], args[1:]
        else:
            action, others = (rest.pop(next(iter(rest))) if rest else None), ()
        if not self._converted(recorder, "policy_response", "response", action) and action is not None:
            self._parts["policy_response"] = Raw(recorder.snapshot(action))
        if others or rest:
            self._extra["arguments"] = Raw(recorder.snapshot({"args": others, **rest} if others else rest))
        self._converted(recorder, "env_state", "state")

    def _prompt(self, recorder: Recorder) -> None:
        if not self._converted(recorder, "prompt", "prompt") and self._watch.observed is not None:
            self._parts["prompt"] = self._watch.observed

    def _converted(self, recorder: Recorder, part: str, name: str, *about: Any) -> bool:
        """Ask one of the user's functions, if there is one, for a part of the trace; whether it gave any."""
        convert = getattr(self._watch.convert, name)
        if convert is None:
            return False
        try:
            value = convert(self._watch.env, *about)
            if value is None:
                return False
            self._parts[part] = Raw(recorder.snapshot(value))
        except Exception:
            caught(f"trace_env {name}")
            return False
        return True

    def _more(self, recorder: Recorder, result: Any) -> None:
        """What the user's functions say of a result."""
        self._converted(recorder, "reward_data", "reward_data", result)
        convert = self._watch.convert.extra
        if convert is None:
            return
        try:
            more = convert(self._watch.env, result)
            fields = more if isinstance(more, Mapping) else {} if more is None else {"extra": more}
            self._extra.update((str(name), Raw(recorder.snapshot(value))) for name, value in fields.items())
        except Exception:
            caught("trace_env extra")

    def returned(self, result: Any) -> None:
        """The call is over: record the step, or remember the first observation."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            watch = self._watch
            first = self._name in FIRST
            outcome = of_first(result, has_info=self._name == "reset") if first else of_step(result)
            watch.observe(recorder, outcome)
            if first and not outcome.over:
                watch.beside.update(self._extra)
                return
            if first:
                self._prompt(recorder)
            if outcome.reward_data is not None:
                self._parts["reward_data"] = Raw(recorder.snapshot(outcome.reward_data))
            if outcome.rest is not None:
                self._extra["result"] = outcome.rest
            self._more(recorder, result)
            self._write(recorder, outcome.fields)
            if outcome.over:
                watch.end_episode(None)
        except Exception:
            caught("trace_env")

    def failed(self, failure: BaseException) -> None:
        """The call is over: record the exception that left it. What the policy saw stays what it saw."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            error = describe_failure(failure)
            cancelled = status_of(failure) == "cancelled"
            own_reason = getattr(failure, "stop_reason", None)
            reason = own_reason if isinstance(own_reason, str) else "cancelled" if cancelled else type(failure).__name__
            fields = {"type": error.type, "message": error.message, "traceback": error.traceback}
            self._write(recorder, {"stop_reason": reason, "error": fields})
            self._watch.end_episode(failure)
        except Exception:
            caught("trace_env")

    def _write(self, recorder: Recorder, fields: dict[str, Any]) -> None:
        if self._extra:
            self._parts["extra"] = Raw(recorder.snapshot(self._extra))
        self._handle.transition(encoded_trace(self._parts), **fields)

    def follow(self, result: Awaitable[Any]) -> Awaitable[Any]:
        """What a method that is not async itself gave to be awaited. A future stays that very object."""
        future: Any = result
        if not hasattr(future, "add_done_callback"):
            return self._awaited(result)
        if future.done():
            self._settled(future)
        else:  # called before whoever awaits it goes on, because it was there first
            future.add_done_callback(self._settled)
        return result

    def _settled(self, future: Any) -> None:
        try:
            value = future.result()
        except BaseException as failure:
            self.failed(failure)
        else:
            self.returned(value)

    async def _awaited(self, result: Awaitable[Any]) -> Any:
        try:
            value = await result
            self.returned(value)
        except BaseException as failure:
            self.failed(failure)
            raise
        return value
