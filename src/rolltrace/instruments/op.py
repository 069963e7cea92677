"""An op that begins and ends in two places, as the calls of SDKs do: a callback here, the last byte of a stream there.
What instruments share that an SDK calls back: a guard, and the ops that were begun and not ended yet.

Who records a call may stand around somebody else who does: LangChain around LiteLLM around OpenAI's SDK. The innermost
one is the turn, since it has what the server said; those around it are ops of the kind `other` with the turn inside. A
function that the user traced as a model call is the turn itself: what is inside of it is none.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, Generic, TypeVar

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import Call, StreamSpan, scope
from rolltrace.instruments.conversations import Conversation, Conversations
from rolltrace.record import MODEL_KINDS, NOTHING, Error, OpKind, Status

_around: ContextVar[OpenOp | None] = ContextVar("rolltrace_model_call", default=None)
"""The model call that is being made here, as whoever is further out sees it. It may have ended since: a callback may
run where it cannot set this back, or only later."""


_T = TypeVar("_T")
_MAX_RUNNING = 65_536
"""A call whose end is never told must not stay for ever."""
_loose = Conversations()
"""Those of calls outside any trajectory."""


def _inputs(inputs: Any) -> Any:
    return inputs


@functools.lru_cache(maxsize=1024)
def _described(name: str, kind: OpKind) -> Call:
    return Call(_inputs, name=name, kind=kind, inputs=lambda bound: bound["inputs"])


class OpenOp(StreamSpan):
    """One call that is going on. It ends once; whatever comes after that is ignored."""

    __slots__ = ("_is_turn", "_name", "_package", "conversation", "enclosing", "is_model_call", "is_stream")

    def __init__(
        self, name: str, kind: OpKind, inputs: Any, place: scope.Place | None, *, is_stream: bool = False
    ) -> None:
        """`place`: where it belongs; None for a trajectory of its own."""
        self._name = name
        self.is_stream = is_stream
        """What it gives comes in items."""
        self.is_model_call = False
        """Even if another op is the turn."""
        self._package = ""
        self._is_turn = True
        self.enclosing = scope.current.get()
        """What stood around it where it began."""
        self.conversation: Conversation | None = None
        """What it is a turn of, if nothing else says where it belongs."""
        before = scope.current.set(place)
        try:
            super().__init__(_described(name, kind), (inputs,), {})
        finally:
            scope.current.reset(before)

    @property
    def is_open(self) -> bool:
        """Whether it goes on; what was open when tracing ended, or began anew, does not."""
        return self._recorder is not None and self._recorder is scope.recorder

    def is_around(self, name: str, enclosing: scope.Place | None) -> bool:
        """Whether a model call of this name that begins here is the same as this one, seen further in."""
        if not self.is_open or self.enclosing is not enclosing:
            return False
        # A package that tells of the end late may have returned long ago. It does not call itself to make one call.
        return not self._package or (self._name != name and _is_running(self._package))

    def given(self, inputs: Any) -> None:
        """What it was given, now that it is known. Never raises."""
        recorder = self._recorder
        if recorder is not None:
            try:
                self._inputs = Raw(recorder.snapshot(inputs))
            except Exception:
                caught("op input")

    def is_no_turn(self) -> None:
        """No model answered here: the turn is another op inside, or there was none."""
        self._is_turn = False

    def finish(self, value: Any = None) -> None:
        """It is over; `value` is what it gave, unless that came in items."""
        self._end_with(value, "ok", None)

    def left(self) -> None:
        """Whoever read the stream does not want the rest."""
        self._end_word = "closed"
        self.finish()

    def break_off(self, error: Error, status: Status = "error", value: Any = None) -> None:
        """It failed, and there is no exception that says so."""
        self._end_word = "raised"
        self._end_with(value, status, error)

    def _end_with(self, value: Any, status: Status, error: Error | None) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        end_tick = recorder.tick_ns()
        try:
            outputs = self._outputs(recorder, None) if self.is_stream else Raw(recorder.snapshot(value))
        except Exception:
            outputs = NOTHING
            caught("op output")
        self._end(recorder, end_tick, outputs, status, error)

    def failed(self, failure: BaseException) -> None:
        if self.is_stream:
            super().failed(failure)
        else:
            super(StreamSpan, self).failed(failure)

    def _end(self, recorder: Any, end_tick: int, outputs: Raw, status: Status, error: Error | None) -> None:
        if not self._is_turn and self.call.kind == "llm":
            self.call = _described(self._name, "other")
        super()._end(recorder, end_tick, outputs, status, error)
        if self.conversation is not None:
            self.conversation.answered(recorder, outputs if status == "ok" else None, self.op_id)


def is_recording() -> bool:
    """Whether a call made here is to be recorded: the first line of every instrument."""
    return scope.recorder is not None and scope.current.get() is not scope.MUTED


def begin_turn(
    name: str, inputs: Any, place: scope.Place | None = None, *, is_stream: bool = False, outermost: bool = False,
    ends_late: str = "",
) -> OpenOp:  # fmt: skip
    """A model call begins here.

    Args:
        name: What to call it.
        inputs: What the model is given.
        place: Where it belongs, if whoever is further out does not say so.
        is_stream: What it gives comes in items.
        outermost: Others that are further in may see this call too.
        ends_late: The package that makes the call, if it may tell of its end after it has returned.
    """
    enclosing, around = scope.current.get(), _around.get()
    conversation = None
    if around is not None and around.is_around(name, enclosing):
        place = around
        around.is_no_turn()
    elif place is None:
        place = enclosing
        if place is None and scope.recorder is not None:
            conversation = _loose.of(scope.recorder, name, inputs)
            place = None if conversation is None else conversation.place
    kind: OpKind = "other" if _is_turn(enclosing) else "llm"
    op = OpenOp(name, kind, inputs, place, is_stream=is_stream)
    op.is_model_call, op._package = True, ends_late
    op.conversation = conversation
    if outermost:
        _around.set(op)
    return op


def _is_running(package: str) -> bool:
    """Whether we were called by code of this package, however far out; also where it awaits."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == package:
            return True
        frame = frame.f_back
    return False


def _is_turn(place: scope.Place | None) -> bool:
    """Whether this is an op that the user traced as a model call."""
    call = getattr(place, "call", None)
    return call is not None and call.kind in MODEL_KINDS


def callback(where: str, *, begins: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a callback that never raises; one that begins something does nothing while nothing is recorded."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            if begins and not is_recording():
                return
            try:
                function(*args, **kwargs)
            except Exception:
                caught(where)

        return guarded

    return decorate


class Running(Generic[_T]):
    """Those of one SDK, by the ids that it gives to calls. For several threads."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[Any, _T] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, key: Any, value: _T) -> None:
        with self._lock:
            self._by_id[key] = value
            while len(self._by_id) > _MAX_RUNNING:
                self._by_id.popitem(last=False)

    def get(self, key: Any) -> _T | None:
        return self._by_id.get(key)

    def take(self, key: Any) -> _T | None:
        with self._lock:
            return self._by_id.pop(key, None)
