"""What the rest of rolltrace has to know of verl."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rolltrace._frameworks import ConfigKeys, Framework, Verdict

PLUGIN = "rolltrace.integrations.verl.plugin"


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --verl`."""
    from rolltrace.integrations.verl import report  # only when it is asked for

    return report.examine()


def warning() -> str | None:
    """verl does not report a plug-in that fails to load, or is switched off."""
    if "verl" in sys.modules and PLUGIN not in sys.modules:
        return "verl is imported, but has not loaded rolltrace's plug-in; see: rolltrace doctor --verl"
    return None


FRAMEWORK = Framework(
    "verl",
    examine,
    config_keys=ConfigKeys(settings=("actor_rollout_ref", "rollout", "trace"), names=("trainer",)),
    warning=warning,
)
