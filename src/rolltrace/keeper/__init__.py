"""Keep house: the one process per host and store that drains journals, compacts, and does what comes after."""

from rolltrace.keeper.process import follow, run, run_once

__all__ = ["follow", "run", "run_once"]
