"""TRL: `callbacks=[RolltraceCallback()]` or `attach(trainer)` records every rollout of a GRPO or RLOO trainer.

docs/howto/trl.md.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.integrations.trl.callback import RolltraceCallback
    from rolltrace.integrations.trl.trainer import attach, detach, install_when_imported

_LATER, __getattr__ = load_later(
    __name__, {"callback": "RolltraceCallback", "trainer": "attach detach install_when_imported"}
)
"""Name -> its module, loaded when it is asked for: this package is looked at by every `init`."""

__all__ = ["RolltraceCallback", "attach", "detach", "install_when_imported"]
