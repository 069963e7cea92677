"""The command line."""

from rolltrace.cli.main import COMMANDS, ROOT, main

__all__ = ["COMMANDS", "ROOT", "main"]
