"""tinker-cookbook: `install()` records every rollout of `rl.train.main`, with tinker-cookbook unchanged.

docs/howto/tinker.md.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.integrations.tinker.config import traced
    from rolltrace.integrations.tinker.coordinates import batch
    from rolltrace.integrations.tinker.plugin import install, install_when_imported

_LATER, __getattr__ = load_later(
    __name__, {"coordinates": "batch", "plugin": "install install_when_imported", "config": "traced"}
)
"""Name -> its module, loaded when it is asked for: this package is looked at by every `init`."""

__all__ = ["batch", "install", "install_when_imported", "traced"]
