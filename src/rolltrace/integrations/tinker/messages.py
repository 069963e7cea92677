"""Which messages were rendered into which observation, and which message was read out of which tokens.

An environment of tinker-cookbook hands out tokens; messages exist only inside, when a renderer is called. Renderers are
listened to, and what they gave is matched by object: reading the tokens again would take half a millisecond for a
thousand of them. What is heard is encoded at once, so that an environment may go on changing its history in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any, NamedTuple

from msgspec import Raw

from rolltrace.capture import scope
from rolltrace.integrations.seams import Steps, hook_subclasses, hooked

_thread = threading.local()
"""Has `inside` while a renderer is at work in this thread: one that calls `super()` is heard once."""


class Rendered(NamedTuple):
    """Messages, as they were when an observation was made of them."""

    observation: Any
    messages: Raw
    length: int
    added: Raw | None
    """Those that came after the prompt and the answer before; None if there was no prompt before."""


class Parsed(NamedTuple):
    """A message that was read out of sampled tokens."""

    message: Raw
    termination: str
    """How the tokens ended: `stop_sequence`, `eos`, `malformed`."""


class Listener:
    """What renderers do during one rollout, or for a group once its rollouts are over."""

    def __init__(self, on_parsed: Callable[[Any, Parsed], None]) -> None:
        self._on_parsed = on_parsed
        self._rendered: dict[int, Rendered] = {}
        self._awaited: list[Any] = []
        self.last: Rendered | None = None
        """What was rendered last."""
        self.shown = 0
        """How many messages the policy saw last."""

    def expect(self, tokens: Any) -> None:
        """From now on a message read out of these tokens is of interest."""
        self._awaited.append(tokens)

    def forget(self) -> None:
        """No tokens are of interest any more."""
        self._awaited.clear()

    def take(self, observation: Any) -> Rendered | None:
        """The messages of this very observation, which is now shown to the policy."""
        rendered = self._rendered.get(id(observation))
        self._rendered.clear()
        if rendered is None or rendered.observation is not observation:
            return None
        self.shown = rendered.length
        return rendered

    def find(self, observation: Any) -> Rendered | None:
        """As `take`, for an observation that was made before the rollout began."""
        rendered = self._rendered.get(id(observation))
        return rendered if rendered is not None and rendered.observation is observation else None

    def begin_step(self) -> None:
        self.last = None

    def rendered(self, observation: Any, messages: Raw, length: int, added: Raw | None) -> None:
        self.last = self._rendered[id(observation)] = Rendered(observation, messages, length, added)

    def awaited(self, tokens: Any) -> Any:
        """The tokens that were expected, if these are the same; an environment may have copied them."""
        for each in self._awaited:
            if each is tokens:
                return each
        for each in self._awaited:
            if len(each) == len(tokens) and list(each) == list(tokens):
                return each
        return None

    def parsed(self, tokens: Any, result: Parsed) -> None:
        self._awaited = [each for each in self._awaited if each is not tokens]
        self._on_parsed(tokens, result)


listening: ContextVar[Listener | None] = ContextVar("rolltrace_tinker_listener", default=None)


class HeardRenderer:
    """A renderer of one environment that is listened to, where the class of renderers is left alone."""

    def __init__(self, renderer: Any, listener: Listener) -> None:
        self._renderer = renderer
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        if name in ("_renderer", "_listener"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._renderer, name)

    def build_generation_prompt(self, *args: Any, **kwargs: Any) -> Any:
        return self._heard(hooked(type(self._renderer).build_generation_prompt, _hear_rendering), *args, **kwargs)

    def parse_response(self, *args: Any, **kwargs: Any) -> Any:
        return self._heard(hooked(type(self._renderer).parse_response, _hear_parsing), *args, **kwargs)

    def _heard(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        token = listening.set(self._listener)
        try:
            return method(self._renderer, *args, **kwargs)
        finally:
            listening.reset(token)


def change(module: Any) -> None:
    """Change `tinker_cookbook.renderers.base`."""
    hook_subclasses(module.Renderer, "build_generation_prompt", _hear_rendering)
    hook_subclasses(module.Renderer, "parse_response", _hear_parsing)


def parse(renderer: Any, tokens: Any) -> Parsed | None:
    """Read the message where the environment does not do so itself. Costs time: only when nobody else will."""
    recorder = scope.recorder
    if recorder is None or renderer is None:
        return None
    _thread.inside = True
    try:
        message, termination = renderer.parse_response(list(tokens))
        return Parsed(Raw(recorder.snapshot(message)), str(termination))
    except Exception:  # what a model says may be anything, and a renderer need not cope with it
        return None
    finally:
        _thread.inside = False


def _hear_rendering(call: BoundArguments) -> Steps:
    listener, recorder = listening.get(), scope.recorder
    if listener is None or recorder is None or getattr(_thread, "inside", False):
        return
    messages = call.args[1]
    snapshot, length = Raw(recorder.snapshot(messages)), len(messages)
    added = Raw(recorder.snapshot(messages[listener.shown + 1 :])) if listener.shown else None
    _thread.inside = True
    try:
        observation = yield
    finally:
        _thread.inside = False
    listener.rendered(observation, snapshot, length, added)


def _hear_parsing(call: BoundArguments) -> Steps:
    listener, recorder = listening.get(), scope.recorder
    if listener is None or recorder is None or getattr(_thread, "inside", False):
        return
    tokens = listener.awaited(call.args[1])
    if tokens is None:
        return
    _thread.inside = True
    try:
        message, termination = yield
    finally:
        _thread.inside = False
    listener.parsed(tokens, Parsed(Raw(recorder.snapshot(message)), str(termination)))
