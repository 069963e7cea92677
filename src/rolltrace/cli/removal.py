"""What commands share that remove something for good: they say what would go, and ask."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rolltrace.cli.output import counted, size
from rolltrace.errors import ConfigError

if TYPE_CHECKING:
    from rolltrace.keeper import Foreseen


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that answers the question ahead; `is_agreed` reads it."""
    parser.add_argument("--yes", action="store_true", help="do not ask, remove; needed where there is no terminal")


def amount(foreseen: Foreseen) -> str:
    """`12 trajectories (3 whole groups, about 4.2 MB)`."""
    groups = counted(foreseen.groups, "whole group")
    return f"{counted(foreseen.trajectories, 'trajectory')} ({groups}, about {size(foreseen.bytes)})"


def is_agreed(options: argparse.Namespace, what: str) -> bool:
    """Whether to go on: `--yes`, or what a person answers.

    Raises:
        ConfigError: there is no `--yes` and nobody to ask.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(f"this would {what}, and there is no terminal to ask: add --yes, or --dry-run to only look")
    print(f"This will {what}. It cannot be undone. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("rolltrace: nothing was removed", file=sys.stderr)
    return False
