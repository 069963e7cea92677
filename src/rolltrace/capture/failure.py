"""An exception that leaves a traced call, as a record.

Written by hand instead of with `traceback`: an exception passes through every enclosing op, and the
standard formatting (which stats source files and, since 3.11, parses each line) costs more than the ops.
"""

from __future__ import annotations

import linecache
from types import TracebackType

from rolltrace._guard import caught, pass_on_signals
from rolltrace.record import Error, Status, clean_text

_MAX_FRAMES = 40
_MAX_CAUSES = 4
_MAX_MEMBERS = 8
_DEEPEST_GROUP = 3
_MAX_MESSAGE_LENGTH = 8192
_MAX_LINE_LENGTH = 500
_CANCELLATIONS = frozenset({"CancelledError", "Cancelled", "GeneratorExit"})
"""By name, so that trio's and anyio's are known without importing them."""


def status_of(failure: BaseException | None) -> Status:
    if failure is None:
        return "ok"
    cancelled = any(cls.__name__ in _CANCELLATIONS for cls in type(failure).__mro__)
    return "cancelled" if cancelled else "error"


def describe_failure(failure: BaseException) -> Error:
    """Type, message and traceback. Never raises, whatever the exception is made of."""
    try:
        return Error(_type_of(failure), _message_of(failure), clean_text("".join(_format(failure))))
    except Exception:
        caught("failure")
        return Error(type(failure).__name__, "", "")


def _type_of(failure: BaseException) -> str:
    kind = type(failure)
    return clean_text(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _message_of(failure: BaseException) -> str:
    try:
        text = str(failure)
        cut = f"... ({len(text)} characters)" if len(text) > _MAX_MESSAGE_LENGTH else ""
        return clean_text(text[:_MAX_MESSAGE_LENGTH]) + cut
    except Exception as error:
        pass_on_signals()
        return f"<its message could not be made: {type(error).__name__}>"


def _format(failure: BaseException, depth: int = 0) -> list[str]:
    parts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = failure
    word = ""
    while link is not None and id(link) not in seen and len(seen) < _MAX_CAUSES:
        seen.add(id(link))
        frames = _frames(link.__traceback__)
        parts[:0] = [*frames, f"{_type_of(link)}: {_message_of(link)}\n", *_members(link, depth), word]
        if link.__cause__ is not None:
            link, word = link.__cause__, "\nThis was the direct cause of:\n\n"
        elif link.__context__ is not None and not link.__suppress_context__:
            link, word = link.__context__, "\nWhile this was handled, there came:\n\n"
        else:
            link = None
    return parts


def _members(failure: BaseException, depth: int) -> list[str]:
    """Those of an exception group, each with its own traceback."""
    members = getattr(failure, "exceptions", None)
    if not isinstance(members, tuple) or depth >= _DEEPEST_GROUP:
        return []
    lines: list[str] = []
    for number, member in enumerate(members[:_MAX_MEMBERS], 1):
        if isinstance(member, BaseException):
            lines.append(f"  Member {number} of {len(members)}:\n")
            lines += ["  " + line.replace("\n", "\n  ").rstrip(" ") for line in _format(member, depth + 1)]
    return lines


def _frames(tb: TracebackType | None) -> list[str]:
    lines: list[str] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            source = linecache.getline(code.co_filename, tb.tb_lineno or 0, tb.tb_frame.f_globals).strip()[
                :_MAX_LINE_LENGTH
            ]
            place = f'  File "{code.co_filename}", line {tb.tb_lineno}, in {code.co_name}\n'
            lines.append(place + (f"    {source}\n" if source else ""))
        tb = tb.tb_next
    if len(lines) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        lines[half:-half] = [f"  ... {len(lines) - _MAX_FRAMES} more ...\n"]
    return lines


_OURS = __file__.rpartition("failure.py")[0]
"""Our own shells stand between the user's frames; they would only be noise."""
