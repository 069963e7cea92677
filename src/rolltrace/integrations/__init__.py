"""rolltrace inside other frameworks: their coordinates become ours. Nothing else in rolltrace knows a framework."""

from rolltrace.integrations.installed import (
    VARIABLE,
    WAITS_FOR,
    install_from_environment,
    installed_integrations,
    variables_of_integrations,
)

__all__ = ["VARIABLE", "WAITS_FOR", "install_from_environment", "installed_integrations", "variables_of_integrations"]
