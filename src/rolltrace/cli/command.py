"""How a command is declared: its help, its arguments, and the function that runs it.

    @command("give space back", "Remove the payloads of trajectories.", STORE, option("--whole", "all rows"), JSON)
    def prune(options: Options) -> int: ...

What is declared is a function that adds itself to a parser, or to a group of one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rolltrace.cli.options import Options

Declaration = Callable[[argparse._ActionsContainer], object]
_TYPES = {"N": int, "X": float}
"""What the name of a value says about it."""


class Command(NamedTuple):
    """One command, or one of the formats or actions of a command."""

    help: str
    """One line, for the list of commands."""
    description: str
    declarations: Sequence[Declaration]
    run: Callable[[Options], int] | None = None
    """Returns the exit code; None for a command that has commands of its own."""
    epilog: str | None = None
    usage: str | None = None

    def add(self, name: str, commands: Any) -> None:
        """Add it to a parser's commands."""
        parser = commands.add_parser(
            name, help=self.help, description=self.description, epilog=self.epilog, usage=self.usage
        )
        for declare in self.declarations:
            declare(parser)
        if self.run is not None:
            parser.set_defaults(run=self.run, command=name, usage_error=parser.error)


def command(
    help: str, description: str, *declarations: Declaration, epilog: str | None = None, usage: str | None = None
) -> Callable[[Callable[[Options], int]], Command]:
    """Make a function that takes options a command."""
    return lambda run: Command(help, description, declarations, run, epilog, usage)


def option(form: str, help: str | None = None, **settings: Any) -> Declaration:
    """An option as it is typed: `--whole` is a switch, `--name TEXT` has a value, `-o/--output FILE` has two names.

    The value of `--step N` is a whole number, that of `--share X` any number, all others are text.
    """
    names, _, value = form.partition(" ")
    if not value:
        settings = {"action": "store_true", **settings}
    elif "action" not in settings and value in _TYPES:
        settings = {"metavar": value, "type": _TYPES[value], **settings}
    else:
        settings = {"metavar": value, **settings}
    return argument(*names.split("/"), help=help, **settings)


def argument(*names: str, **settings: Any) -> Declaration:
    """An argument, with the settings of argparse."""
    return lambda container: container.add_argument(*names, **settings)


def group(title: str, *declarations: Declaration) -> Declaration:
    """Options under a title of their own."""
    return lambda container: _add_all(container.add_argument_group(title), declarations)


def one_of(*declarations: Declaration, required: bool = False) -> Declaration:
    """Options that exclude each other."""
    return lambda container: _add_all(container.add_mutually_exclusive_group(required=required), declarations)


def subcommands(value: str, title: str | None, commands: Mapping[str, Command]) -> Declaration:
    """Commands below a command, one of which has to be given."""

    def declare(container: Any) -> None:
        below = container.add_subparsers(metavar=value, required=True, title=title)
        for name, each in commands.items():
            each.add(name, below)

    return declare


def count(text: str) -> int:
    """Read a number of rows."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more; not {text!r}")
    return int(text)


def _add_all(container: argparse._ActionsContainer, declarations: Sequence[Declaration]) -> None:
    for declare in declarations:
        declare(container)
