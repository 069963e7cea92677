"""rolltrace inside other frameworks: their coordinates become ours. Nothing else in rolltrace knows a framework."""

from rolltrace.integrations.installed import VARIABLE, install_from_environment, installed_integrations

__all__ = ["VARIABLE", "install_from_environment", "installed_integrations"]
