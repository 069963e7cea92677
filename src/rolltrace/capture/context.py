"""A place in a trajectory as text, for other processes: where it is, and how to turn tracing on there.

The text is a W3C traceparent, then JSON: the coordinates and the settings that are not defaults. None of these is a
secret: credentials of backends stay in the environment.
"""

from __future__ import annotations

import re
from contextvars import Token
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any

from rolltrace._guard import caught, logger
from rolltrace.capture import scope
from rolltrace.capture.trajectory import TrajectoryHandle
from rolltrace.errors import ContextError
from rolltrace.record import Coordinates, clean_text, coordinate, decode_coordinates, whole
from rolltrace.settings import Settings

_CONTEXT = re.compile(r"00-([0-9a-f]{32})-([0-7][0-9a-f]{15})-0([01])(?:;(\{.*\}))?", re.DOTALL)
_NO_TRAJECTORY = "0" * 32
_NO_OP = "0" * 16
_MAX_RUN_LENGTH = 200
_has_warned = False


def current_context() -> str:
    """The current trajectory and op as a small string, for `use_context` in another process.

    Outside any trajectory it carries only how to turn tracing on. Empty while tracing is off.
    """
    recorder, place = scope.recorder, scope.current.get()
    if recorder is None:
        return ""
    if place is not None and place._trajectory is None:
        return f"00-{_NO_TRAJECTORY}-{_NO_OP}-00"
    return _context(place, {"settings": _carried(recorder.settings)})


def context_of(place: scope.Place) -> str:
    """Where this is, without how to turn tracing on: for who records into the same store already."""
    handle = place._trajectory
    if handle is None or handle._recorder is None:
        return ""
    return _context(place, {"run": handle.run or handle._recorder.settings.run})


def place_of_context(text: str) -> scope.Place | None:
    """The place that a context names, in a process that records; None if it names none.

    Raises:
        ContextError: it is no context.
    """
    return _place(read_context(text))


def _context(place: scope.Place | None, where: dict[str, Any]) -> str:
    import json  # not needed by a rollout in one process

    ids = f"{_NO_TRAJECTORY}-{_NO_OP}"
    if place is not None and place._trajectory is not None:
        ids = f"{place._trajectory.id}-{place.op_id:016x}"
        coordinates = decode_coordinates(place._trajectory.coordinates)._asdict()
        where.update({name: value for name, value in coordinates.items() if value is not None and value is not False})
        if place._trajectory.is_group:
            where["is_group"] = True
    return f"00-{ids}-01;{json.dumps(where, separators=(',', ':'))}"


def _carried(settings: Settings) -> dict[str, Any]:
    """The settings that are not defaults, in the form in which `init` takes them."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    changed = {each.name: values[each.name] for each in fields(settings) if values[each.name] != each.default}
    if not isinstance(changed.get("tokenizer", Path()), Path):
        del changed["tokenizer"]  # an object: it stays in its process
    return {name: str(value) if isinstance(value, Path) else value for name, value in changed.items()}


class use_context:
    """Continue a trajectory of another process or actor: `with use_context(text): ...`.

    Ops inside become children of the op that called `current_context()`. If tracing was never set up in this process,
    it is turned on as it was there. An empty string changes nothing.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._token: Token[scope.Place | None] | None = None

    def __enter__(self) -> None:
        if not self._text:
            return
        try:
            context = read_context(self._text)
            if scope.recorder is None:
                _turn_on(context)
            if scope.recorder is not None:
                self._token = scope.current.set(_place(context))
        except Exception:
            caught("use_context")

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            scope.leave(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, failure, tb)


class _Context:
    """What a text says."""

    def __init__(self, trace_id: str, op_id: str, sampled: str, where: Any) -> None:
        self.trace_id = bytes.fromhex(trace_id)
        self.op_id = int(op_id, 16)
        self.is_muted = sampled == "0"
        self.settings: dict[str, Any] = where.get("settings") or {}
        self.run = clean_text(str(where.get("run") or self.settings.get("run") or ""))[:_MAX_RUN_LENGTH]
        self.is_group = bool(where.get("is_group", False))
        self.coordinates = Coordinates(
            step=whole(where.get("step")),
            sample_index=coordinate(where.get("sample_index")),
            rollout_n=whole(where.get("rollout_n")),
            validate=bool(where.get("validate", False)),
        )


def read_context(text: str) -> _Context:
    """What a context says.

    Raises:
        ContextError: it is none.
    """
    match = _CONTEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ContextError(f"use_context needs the string that current_context() gave, not {text!r:.200}")
    import json

    trace_id, op_id, sampled, where = match.groups()
    try:
        return _Context(trace_id, op_id, sampled, json.loads(where or "{}"))
    except (ValueError, AttributeError):
        raise ContextError(f"the coordinates in the context {text!r:.200} cannot be read") from None


def _place(context: _Context) -> scope.Place | None:
    if context.is_muted:
        return scope.MUTED
    if not any(context.trace_id):
        return None
    recorder = scope.recorder
    handle = TrajectoryHandle(recorder, context.coordinates, context.trace_id, context.op_id, context.is_group)
    if recorder is not None and context.run != recorder.settings.run:
        handle.run = context.run
    return handle


def _turn_on(context: _Context) -> None:
    """Tracing is off here. It is turned on if nobody has decided otherwise; if it cannot be, that is said once."""
    global _has_warned
    if context.is_muted:
        return
    if not scope.turn_on(context.settings) and not _has_warned:
        _has_warned = True
        logger.warning(
            "use_context: tracing is off in this process, so nothing is recorded here; call rolltrace.init(...) in it, "
            "or remove what turns it off (backend=None, ROLLTRACE_BACKEND=off)"
        )
