"""`rolltrace run`: prime-rl gets our monitor beside those of its config."""

from __future__ import annotations

import functools
import os
from typing import Any

from rolltrace._guard import caught
from rolltrace.integrations.after_import import after_import, waiting_for
from rolltrace.integrations.prime_rl.monitor import RolltraceMonitor

_installed = False


@waiting_for("prime_rl")
def install_when_imported() -> None:
    """Add the monitor when prime-rl sets up its own; done once per process."""
    global _installed
    if not _installed:
        _installed = True
        after_import("prime_rl.monitors", _change)


def _change(module: Any) -> None:
    """Change `prime_rl.monitors`."""
    theirs = module.setup

    @functools.wraps(theirs)
    async def setup(*args: Any, **kwargs: Any) -> None:
        await theirs(*args, **kwargs)
        try:
            is_first_rank = int(os.environ.get("RANK", os.environ.get("DP_RANK", "0"))) == 0
            if is_first_rank and not any(isinstance(each, RolltraceMonitor) for each in module.MONITORS):
                module.MONITORS.append(RolltraceMonitor())
        except Exception:
            caught("prime-rl monitors")

    module.setup = setup
