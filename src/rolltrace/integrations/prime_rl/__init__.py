"""prime-rl: `rolltrace run` adds a monitor that records every episode. Files: `rolltrace import prime-rl`.

docs/howto/verifiers.md.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.integrations.prime_rl.monitor import RolltraceMonitor, install_when_imported

_LATER, __getattr__ = load_later(__name__, {"monitor": "RolltraceMonitor install_when_imported"})
"""Name -> its module, loaded when it is asked for."""

__all__ = ["RolltraceMonitor", "install_when_imported"]
