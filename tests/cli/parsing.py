"""Command lines, parsed and not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from rolltrace.cli import ROOT
from rolltrace.cli.command import Command, Group
from rolltrace.cli.options import Options


def all_commands(
    command: click.Command = ROOT, context: click.Context | None = None
) -> Iterator[tuple[click.Context, click.Command]]:
    """Each command and each group of them, with a context for its help."""
    context = click.Context(command, parent=context, info_name=(context and command.name) or "rolltrace")
    yield context, command
    if isinstance(command, Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            below.name = name
            yield from all_commands(below, context)


def parse(words: Sequence[str]) -> Options:
    """The options of a command line.

    Raises:
        click.UsageError: it is wrong.
    """
    command: click.Command | None = ROOT
    context = click.Context(ROOT, info_name="rolltrace")
    rest = list(words)
    if rest[0].startswith("-"):
        ROOT.make_context("rolltrace", rest)
    while isinstance(command, Group):
        if not rest or (found := command.get_command(context, rest[0])) is None:
            raise click.UsageError(f"no command in {rest}", context)
        name, command = rest.pop(0), found
    assert isinstance(command, Command)
    return Options(command.make_context(name, rest, parent=context), command.store_word)
