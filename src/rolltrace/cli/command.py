"""How a command is declared: its help, its arguments, and the function that runs it.

    @command("give space back", "Remove the payloads of trajectories.", STORE, option("--whole", "all rows"), JSON)
    def prune(options: Options) -> int: ...

Built on click, with sections in the help, options that exclude each other, and commands that load when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from rolltrace.errors import StoreError
from rolltrace.settings import nearest

if TYPE_CHECKING:
    from rolltrace.cli.options import Options

Declaration = Sequence[click.Parameter]
_TYPES = {"N": click.INT, "X": click.FLOAT}
"""What the name of a value says about it."""
PATH = click.Path(readable=False)
"""Completes as a path; what is wrong with it, the command says."""
_PATHS = ("STORE", "FILE", "PATH", "FOLDER")
WORDS = "rolltrace.words"
"""Of a context's meta: the words of the command line that belong to the command."""
_DOCS = "documentation: rolltrace docs"


class Option(click.Option):
    section = "options"
    """Its title in the help."""
    rivals: str = ""
    """Options of one command that have the same exclude each other."""
    is_one_required = False
    """Whether one of the rivals has to be given."""


class Argument(click.Argument):
    """An argument that the help describes, as it does options."""

    section = "arguments"

    def __init__(self, name: str, *, help: str, **settings: Any) -> None:
        super().__init__([name], **settings)
        self.text = help

    def get_help_record(self, context: click.Context) -> tuple[str, str]:
        return self.make_metavar(context), self.text


class StoreWord(NamedTuple):
    """The argument of many words, one of which may be the store."""

    dest: str
    find: Callable[[Sequence[str]], int | None]
    """Which of the words it is."""


class _Page(click.Command):
    """Help in our form: the options in sections, and examples as they stand."""

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(self.help or "")

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(context):
            record = param.get_help_record(context)
            if record is not None:
                sections.setdefault(getattr(param, "section", "options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for paragraph in [*(self.epilog or "").split("\n\n"), _DOCS]:
            if paragraph:
                formatter.write_paragraph()
                formatter.write(paragraph + "\n") if "\n" in paragraph else formatter.write_text(paragraph)


class Command(_Page):
    """A command that runs a function of its `Options` and has an exit code."""

    def __init__(
        self,
        help: str,
        description: str,
        declarations: Sequence[Declaration | StoreWord],
        run: Callable[[Options], int],
        epilog: str | None = None,
        **settings: Any,
    ) -> None:
        params = [param for each in declarations if not isinstance(each, StoreWord) for param in each]
        super().__init__(None, params=params, help=description, short_help=help, epilog=epilog, **settings)
        self.run = run
        self.store_word = next((each for each in declarations if isinstance(each, StoreWord)), None)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        context.meta[WORDS] = tuple(args)
        rest = super().parse_args(context, args)
        if not context.resilient_parsing:
            self._check_rivals(context)
        return rest

    def invoke(self, context: click.Context) -> int:
        from rolltrace.cli.options import Options, explain_refusal

        options = Options(context, self.store_word)
        try:
            return self.run(options)
        except OSError as error:
            refusal = explain_refusal(error, options.named_store())
            if refusal is None:
                raise
            raise StoreError(refusal) from error

    def _check_rivals(self, context: click.Context) -> None:
        rivals: dict[str, list[Option]] = {}
        words = context.meta[WORDS]
        for param in self.params:
            if isinstance(param, Option) and param.rivals:
                rivals.setdefault(param.rivals, []).append(param)
            both = [*param.opts, *param.secondary_opts]  # click lets the last of them win
            if param.secondary_opts and all(name in words for name in both):
                raise click.UsageError(f"{' and '.join(both)} exclude each other", context)
        for options in rivals.values():
            names = {param.name: param.opts[-1] for param in options}
            given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            if len(given) > 1:
                raise click.UsageError(f"{' and '.join(names[name] for name in given)} exclude each other", context)
            if not given and options[0].is_one_required:
                raise click.UsageError(f"one of {', '.join(names.values())} is required", context)


class Group(_Page, click.Group):
    """Commands below a command: titles, and under each the commands by name, or the module that has one as NAME."""

    def __init__(
        self, help: str, description: str, sections: Mapping[str, Mapping[str, Command | Group | str]], **settings: Any
    ) -> None:
        super().__init__(None, help=description, short_help=help, subcommand_metavar="COMMAND ...", **settings)
        self.sections = sections
        self.entries = {name: entry for entries in sections.values() for name, entry in entries.items()}

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        entry = self.entries.get(name)
        if not isinstance(entry, str):
            return entry
        command: click.Command = getattr(
            import_module(f"rolltrace.cli.{entry}"), "import_" if name == "import" else name
        )
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.entries and not args[0].startswith("-") and not context.resilient_parsing:
            near = nearest(args[0], self.entries)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise click.UsageError(f"no command {args[0]!r}; {hint}there are: {', '.join(self.entries)}", context)
        return super().resolve_command(context, args)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in self.sections.items():
            commands = {name: self.get_command(context, name) for name in entries}
            with formatter.section(title):
                formatter.write_dl([(name, each.short_help or "") for name, each in commands.items() if each])
        super().format_options(context, formatter)


def command(
    help: str, description: str, *declarations: Declaration | StoreWord, epilog: str | None = None, **settings: Any
) -> Callable[[Callable[[Options], int]], Command]:
    """Make a function that takes options a command. `help` is one line, for the list of commands."""
    return lambda run: Command(help, description, declarations, run, epilog, **settings)


def option(form: str, help: str | None = None, *, dest: str | None = None, **settings: Any) -> Declaration:
    """An option as it is typed: `--whole` is a switch, `--name TEXT` has a value, `-o, --output FILE` has two names.

    The value of `--step N` is a whole number, that of `--share X` any number, all others are text.
    """
    words = form.replace(",", " ,").split(" , ")
    *names, last = words
    name, _, value = last.partition(" ")
    if value:
        kind = _TYPES.get(value) or (PATH if value in _PATHS else click.STRING)
        settings = {"metavar": value, "type": kind, **settings}
    else:
        settings = {"is_flag": True, **settings}
    return [Option([*names, name, *([dest] if dest else [])], help=help, **settings)]


def argument(name: str, help: str, metavar: str | None = None, **settings: Any) -> Declaration:
    """An argument, with the settings of click."""
    return [Argument(name, help=help, metavar=metavar or name.upper(), **settings)]


def section(title: str, *declarations: Declaration) -> Declaration:
    """Options under a title of their own."""
    return _change(declarations, section=title)


def one_of(*declarations: Declaration, required: bool = False) -> Declaration:
    """Options that exclude each other."""
    names = " ".join(str(param.name) for each in declarations for param in each)
    return _change(declarations, rivals=names, is_one_required=required)


def _change(declarations: Sequence[Declaration], **changes: Any) -> Declaration:
    params = [copy(param) for each in declarations for param in each]
    for param in params:
        vars(param).update(changes)
    return params
