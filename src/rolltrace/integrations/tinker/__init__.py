"""tinker-cookbook: `install()` records every rollout of `rl.train.main`, with tinker-cookbook unchanged.

docs/howto/tinker.md.
"""

from typing import Any

from rolltrace.integrations.tinker.coordinates import batch
from rolltrace.integrations.tinker.plugin import install, install_when_imported

__all__ = ["batch", "install", "install_when_imported", "traced"]


def __getattr__(name: str) -> Any:
    if name == "traced":  # it needs tinker-cookbook itself
        from rolltrace.integrations.tinker.config import traced

        return traced
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
