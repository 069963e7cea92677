"""The one place where rolltrace's own faults end.

Code that runs inside a traced call wraps its own work, never the user's, like this:

    try:
        ...our work...
    except Exception:
        caught("op start")

The fault is counted, the first of each kind is logged with its traceback, and the rollout goes on.
`ROLLTRACE_STRICT=1` raises it instead, which is how the test suite runs. Exceptions that are not
`Exception` (KeyboardInterrupt, CancelledError) are the user's and pass through.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter

logger = logging.getLogger("rolltrace")

faults: Counter[str] = Counter()
"""How often each kind of fault was caught in this process: 'where: ExceptionType' -> count."""


def caught(where: str) -> None:
    """Handle the exception now being handled: count it, log the first of its kind, or raise if strict."""
    kind, fault, _ = sys.exc_info()
    if kind is None or strict():
        raise
    label = f"{where}: {kind.__name__}"
    faults[label] += 1
    if faults[label] == 1:
        logger.error(
            "rolltrace had a fault of its own (%s: %s); the rollout goes on, this record may be incomplete. "
            "Further faults of this kind are only counted.",
            label,
            fault,
            exc_info=fault,
        )


def strict() -> bool:
    return os.environ.get("ROLLTRACE_STRICT", "") not in ("", "0")


def report() -> None:
    """Log the sum of all faults, once, at shutdown."""
    if faults:
        logger.warning("rolltrace caught faults of its own: %s", dict(faults))
