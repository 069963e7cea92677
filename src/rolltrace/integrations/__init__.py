"""rolltrace inside other frameworks: their coordinates become ours. Nothing else in rolltrace knows a framework."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.integrations.installed import (
    VARIABLE,
    WAITS_FOR,
    install_from_environment,
    installed_integrations,
    variables_of_integrations,
)

if TYPE_CHECKING:
    from rolltrace.integrations.instrument import IN_USE, Instrument, Undo, replace

_LATER, __getattr__ = load_later(__name__, {"instrument": "IN_USE Instrument Undo replace"})

__all__ = [
    "IN_USE",
    "VARIABLE",
    "WAITS_FOR",
    "Instrument",
    "Undo",
    "install_from_environment",
    "installed_integrations",
    "replace",
    "variables_of_integrations",
]
