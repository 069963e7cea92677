"""verifiers: `Live` records the rollouts of `run_slot` while they happen. Files: `rolltrace import verifiers`.

docs/howto/verifiers.md.
"""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.integrations.verifiers.live import Live
    from rolltrace.integrations.verifiers.tell import tell_scores, tell_trace, trajectory_id_of

_LATER, __getattr__ = load_later(__name__, {"live": "Live", "tell": "tell_scores tell_trace trajectory_id_of"})
"""Name -> its module, loaded when it is asked for: this package is looked at by every `init`."""

__all__ = ["Live", "tell_scores", "tell_trace", "trajectory_id_of"]
