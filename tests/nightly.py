"""How much of a long series runs: a little in `make test`, all of it in `make nightly`."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("ROLLTRACE_NIGHTLY") == "1"


def nightly(count: int, otherwise: int) -> int:
    """How often to repeat something: `count` times at night, `otherwise` as often as tests of each change can bear."""
    return count if NIGHTLY else otherwise
