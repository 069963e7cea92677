"""How much of a long series runs: a little in `make test`, all of it in `make nightly`."""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount")
NIGHTLY = os.environ.get("ROLLTRACE_NIGHTLY") == "1"


def nightly(count: Amount, otherwise: Amount) -> Amount:
    """How much to do: `count` at night, `otherwise` as much as tests of each change can bear."""
    return count if NIGHTLY else otherwise
