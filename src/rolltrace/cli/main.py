"""The command line: which commands there are, where they are declared, and what becomes of their errors.

Every command takes the store as its last argument or as `--store`, or from `ROLLTRACE_STORE`, or `~/.rolltrace`. An
error that rolltrace foresees is one line on stderr (on a terminal, with the place marked) and exit code 1; wrong usage
is exit code 2; Ctrl-C is one line and exit code 130.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from rolltrace.cli.command import Group, option
from rolltrace.cli.output import error_text, plain, warn
from rolltrace.errors import IncompleteWarning, RolltraceError, UnknownNameWarning

_PROGRAM = "rolltrace"
_COMPLETE = "_ROLLTRACE_COMPLETE"
"""The environment variable by which a shell asks for completions."""
_GROUPS = {
    "record": {"run": "run", "proxy": "serve", "collect": "serve", "demo": "demo", "label": "label"},
    "look": {
        "view": "serve", "ls": "ls", "show": "show", "groups": "groups", "diff": "diff", "plot": "plot",
        "live": "live", "sql": "sql", "stats": "stats", "docs": "docs",
    },
    "export": {"export": "export", "import": "import_", "sync": "sync"},
    "maintain": {"doctor": "doctor", "store": "maintain"},
}  # fmt: skip
"""Commands in the order of `rolltrace --help`, each with the module that declares it."""
COMMANDS = tuple(name for commands in _GROUPS.values() for name in commands)
_MOVED = {
    **{name: f"store {name}" for name in ("compact", "drain", "journal", "prune", "retain", "rm")},
    "completion": "--completion SHELL",
    "flags": "docs flags",
    "score": "label ID --score NAME=VALUE",
    "tail": "live --finished",
}
"""Commands of earlier versions, and what to type instead."""
_ABOUT_ANSWERS = (IncompleteWarning, UnknownNameWarning)
_STOPPED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def _print_version(context: click.Context, param: click.Parameter, is_given: bool) -> None:
    if is_given:
        import rolltrace

        print(f"rolltrace {rolltrace.__version__}")
        context.exit()


def _print_completion(context: click.Context, param: click.Parameter, shell: str | None) -> None:
    from click.shell_completion import get_completion_class

    completion = None if shell is None else get_completion_class(shell)
    if completion is not None:
        print(completion(ROOT, {}, _PROGRAM, _COMPLETE).source())
        context.exit()


ROOT = Group(
    "",
    "Record what happens inside agentic-RL rollouts, and look at it.",
    _GROUPS,
    params=[
        *option(
            "--version", "print the version and stop", is_eager=True, expose_value=False, callback=_print_version
        ),
        *option(
            "--completion SHELL", "print the script by which bash, fish or zsh completes commands with Tab",
            type=click.Choice(["bash", "fish", "zsh"]), is_eager=True, expose_value=False, callback=_print_completion,
        ),
    ],
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if os.environ.get(_COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(ROOT, {}, _PROGRAM, _COMPLETE, os.environ[_COMPLETE])
    try:
        return _run(words)
    except KeyboardInterrupt:
        _end_quietly()
        warn("stopped by Ctrl-C")
        return _STOPPED


def _run(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to stop
    try:
        if words and words[0] in _MOVED:
            raise click.UsageError(f"there is no command {words[0]!r} any more; type: rolltrace {_MOVED[words[0]]}")
        with _showing_warnings(), ROOT.make_context(_PROGRAM, words) as context:
            code: int = ROOT.invoke(context)
        sys.stdout.flush()
        return code
    except click.exceptions.Exit as ended:
        raise SystemExit(ended.exit_code) from None
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return error.exit_code
    except click.UsageError as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:  # `rolltrace ... | head` has seen enough
        _end_quietly()
        return 0
    except RolltraceError as error:
        warn(error_text(error))
        return 1


def _end_quietly() -> None:
    """Drop what stdout still holds: Python flushes it on its way out, and would complain about a closed pipe."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _showing_warnings() -> Iterator[None]:
    """While the block runs, a warning about an answer is one line on stderr."""
    with warnings.catch_warnings():
        for kind in _ABOUT_ANSWERS:
            warnings.simplefilter("always", kind)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, _ABOUT_ANSWERS):
                warn(plain(str(message)))
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield
