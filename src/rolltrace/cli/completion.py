"""`rolltrace completion`: a script by which a shell completes commands, formats and options.

Made from the parsers themselves, so it is never out of date, and static, so that pressing Tab starts no Python. What is
not ours to know (a store, a file) the shell completes as a path.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from rolltrace.cli import command as declare
from rolltrace.cli.options import Options

_EXAMPLES = """examples:
  rolltrace completion bash >> ~/.bashrc
  rolltrace completion zsh > ~/.zfunc/_rolltrace      with ~/.zfunc in fpath
  rolltrace completion fish > ~/.config/fish/completions/rolltrace.fish
  source <(rolltrace completion bash)                 for this shell only"""


class _Option(NamedTuple):
    names: list[str]
    help: str
    takes_value: bool
    choices: list[str]
    """The values it may have; none if any."""


class _Command(NamedTuple):
    path: str
    """Its words, with a space between them; empty for `rolltrace` itself."""
    options: list[_Option]
    subcommands: dict[str, str]
    """Name -> help."""


@declare.command(
    "complete commands and options with Tab",
    "Print a script that lets a shell complete rolltrace's commands, formats and options.",
    declare.argument("shell", choices=["bash", "fish", "zsh"], help="which shell"),
    epilog=_EXAMPLES,
)
def completion(options: Options) -> int:
    from rolltrace.cli import parser_of

    print(_SCRIPTS[options.shell](list(_commands(parser_of()))), end="")
    return 0


def _commands(parser: argparse.ArgumentParser, path: str = "") -> Iterator[_Command]:
    """The command of a parser, and all below it."""
    options, subcommands, below = [], {}, {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = action.choices
            subcommands = {each.dest: each.help or "" for each in action._choices_actions}
        elif action.option_strings:
            choices = [str(choice) for choice in action.choices or ()]
            options.append(_Option(list(action.option_strings), _one_line(action.help), action.nargs != 0, choices))
        elif action.choices:  # a positional argument with a fixed set of values completes as a subcommand does
            subcommands = {str(choice): "" for choice in action.choices}
    yield _Command(path, options, {name: _one_line(text) for name, text in subcommands.items()})
    for name, each in below.items():
        yield from _commands(each, f"{path} {name}".strip())


def _one_line(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def _bash(commands: list[_Command]) -> str:
    paths = "|".join(f'"{command.path}"' for command in commands if command.path)
    words = "\n".join(
        f'    "{command.path}") subcommands="{" ".join(command.subcommands)}"; '
        f'options="{" ".join(name for option in command.options for name in option.names)}" ;;'
        for command in commands
    )
    values = "\n".join(
        f'    {"|".join(_words(command, name) for name in option.names)}) words="{" ".join(option.choices)}" ;;'
        for command in commands
        for option in command.options
        if option.takes_value
    )
    return f"""\
# bash completion of rolltrace, made by: rolltrace completion bash
_rolltrace() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="" word subcommands="" options="" words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    word="$command $word"
    case "${{word# }}" in
    {paths}) command="${{word# }}" ;;
    esac
  done
  COMPREPLY=()
  case "$command $previous" in
{values}
    *)
      case "$command" in
{words}
      esac
      if [[ $current == -* ]]; then words="$options"; else words="$subcommands"; fi ;;
  esac
  # Nothing to offer: the shell completes a path.
  [[ -z $words ]] || COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _rolltrace rolltrace
"""


def _words(command: _Command, option: str) -> str:
    return f'"{command.path} {option}"'


def _zsh(commands: list[_Command]) -> str:
    paths = "|".join(f'"{command.path}"' for command in commands if command.path)

    def described(pairs: Iterator[tuple[str, str]]) -> str:
        return " ".join(_quoted(f"{name}:{text}".rstrip(":").replace("\n", " ")) for name, text in pairs)

    words = "\n".join(
        f'    "{command.path}") subcommands=({described(iter(command.subcommands.items()))}); '
        f"options=({described((name, option.help) for option in command.options for name in option.names)}) ;;"
        for command in commands
    )
    values = "\n".join(
        f"    {'|'.join(_words(command, name) for name in option.names)}) values=({' '.join(option.choices)}); "
        "is_value=1 ;;"
        for command in commands
        for option in command.options
        if option.takes_value
    )
    return f"""\
#compdef rolltrace
# zsh completion of rolltrace, made by: rolltrace completion zsh
_rolltrace() {{
  local command="" word is_value=0
  local -a subcommands options values
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    word="$command $word"
    case "${{word# }}" in
    {paths}) command="${{word# }}" ;;
    esac
  done
  case "$command ${{words[CURRENT-1]}}" in
{values}
  esac
  case "$command" in
{words}
  esac
  if (( is_value )); then
    if (( $#values )); then compadd -a values; else _files; fi
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( $#subcommands )); then
    _describe command subcommands
  else
    _files
  fi
}}
# Sourced or found in fpath: both work.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _rolltrace "$@"; else compdef _rolltrace rolltrace; fi
"""


def _fish(commands: list[_Command]) -> str:
    lines = ["# fish completion of rolltrace, made by: rolltrace completion fish"]
    for command in commands:
        conditions = [f"__fish_seen_subcommand_from {word}" for word in command.path.split()]
        names = " ".join(command.subcommands)
        here = conditions or (["__fish_use_subcommand"] if not command.path else [])
        if command.subcommands:
            condition = "; and ".join([*here, *([f"not __fish_seen_subcommand_from {names}"] if command.path else [])])
            for name, text in command.subcommands.items():
                lines.append(f"complete -c rolltrace -f -n {_quoted(condition)} -a {name} -d {_quoted(text)}")
        for option in command.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r" * option.takes_value
            condition = "; and ".join(here)
            lines.append(f"complete -c rolltrace -n {_quoted(condition)} {flags}{value} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """In single quotes, for all three shells."""
    return "'" + text.replace("\\", "\\\\").replace("'", "’") + "'"


_SCRIPTS = {"bash": _bash, "fish": _fish, "zsh": _zsh}
