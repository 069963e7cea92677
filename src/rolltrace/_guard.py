"""The one place where internal errors are caught and counted.

Code that runs inside a traced call wraps its own work, never the user's, like this:

    try:
        ...our work...
    except Exception:
        caught("op start")

An error is counted, the first of each kind is logged with its traceback, and the rollout goes on.
An argument of the user's that makes no sense goes to `misused`.
`ROLLTRACE_STRICT=1` raises either instead, which is how the test suite runs. Exceptions that are not
`Exception` (KeyboardInterrupt, CancelledError) are the user's and pass through, and so does what a signal
handler raises while our code happens to run: a timeout must not be lost in a guard.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections import Counter
from types import CodeType, TracebackType
from typing import Any

from rolltrace.errors import ConfigError

logger = logging.getLogger("rolltrace")

OURS = os.path.dirname(__file__) + os.sep
"""How the file names of rolltrace's own code begin."""

internal_errors: Counter[str] = Counter()
"""How often each kind of error was caught in this process: 'where: ExceptionType' -> count."""


def caught(where: str) -> None:
    """Handle the current exception: count it, log the first of its kind, or raise if strict."""
    pass_on_signals()
    kind, error, _ = sys.exc_info()
    if kind is None or strict():
        raise
    label = f"{where}: {kind.__name__}"
    internal_errors[label] += 1
    if internal_errors[label] == 1 and isinstance(error, ConfigError):
        logger.error("%s. Further ones of this kind are only counted.", error)
    elif internal_errors[label] == 1:
        logger.error(
            "internal error in rolltrace (%s: %s); the rollout goes on, this record may be incomplete. "
            "Further errors of this kind are only counted.",
            label,
            error,
            exc_info=error,
        )


def misused(*, stacklevel: int) -> None:
    """Handle the current `ConfigError`: an argument that makes no sense, given inside a rollout.

    A warning names the line of the call; the rollout goes on, unless strict. This is not an internal error of
    rolltrace: the caller counts what was not recorded as a loss.
    """
    pass_on_signals()
    error = sys.exc_info()[1]
    if error is None or strict():
        raise
    warnings.warn(f"{error} (not recorded; counted: rolltrace stats)", stacklevel=stacklevel + 1)


def pass_on_signals() -> None:
    """Raise the current exception if a signal handler of the user's raised it."""
    if _from_signal_handler(sys.exc_info()[2]):
        raise


def _from_signal_handler(traceback: TracebackType | None) -> bool:
    """Whether the exception was raised by a handler that Python called in the middle of our code."""
    codes = set()
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(OURS):
            codes.add(code)
        traceback = traceback.tb_next
    if not codes:  # as most are; asking for all handlers takes much longer
        return False
    return not codes.isdisjoint({_code_of(signal.getsignal(number)) for number in signal.valid_signals()})


def _code_of(handler: Any) -> CodeType | None:
    for function in (handler, getattr(handler, "__func__", None), getattr(handler, "func", None)):
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


def strict() -> bool:
    return os.environ.get("ROLLTRACE_STRICT", "") not in ("", "0")


def report() -> None:
    """Log how many internal errors there were, once, at shutdown."""
    if internal_errors:
        logger.warning("internal errors in rolltrace: %s", dict(internal_errors))
