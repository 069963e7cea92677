"""tinker-cookbook: `install()` records every rollout of `rl.train.main`, with tinker-cookbook unchanged.

docs/howto/tinker.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolltrace.integrations.tinker.config import traced
    from rolltrace.integrations.tinker.coordinates import batch
    from rolltrace.integrations.tinker.plugin import install, install_when_imported

_LATER = {"batch": "coordinates", "install": "plugin", "install_when_imported": "plugin", "traced": "config"}
"""Name -> its module, loaded when it is asked for: this package is looked at by every `init`."""

__all__ = ["batch", "install", "install_when_imported", "traced"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
