"""The command line."""

from rolltrace.cli.main import COMMANDS, main, parser_of

__all__ = ["COMMANDS", "main", "parser_of"]
