"""The command line: which commands there are, where they are declared, and what becomes of their errors.

Every command takes the store as its last argument or as `--store`, or from `ROLLTRACE_STORE`, or `~/.rolltrace`. An
error that rolltrace foresees is one line on stderr (on a terminal, with the place marked) and exit code 1; wrong usage
is exit code 2; Ctrl-C is one line and exit code 130.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from rolltrace.cli.options import Options
from rolltrace.cli.output import error_text, plain, warn
from rolltrace.errors import IncompleteWarning, RolltraceError, UnknownNameWarning
from rolltrace.files import write_problem

_GROUPS = {
    "record": {
        "run": "run", "proxy": "serve", "collect": "serve", "demo": "demo", "label": "label", "score": "label",
    },
    "look": {
        "view": "serve", "ls": "ls", "show": "show", "groups": "groups", "diff": "diff", "plot": "plot", "tail": "live",
        "live": "live", "sql": "sql", "stats": "stats", "flags": "docs", "docs": "docs",
    },
    "export": {"export": "export", "import": "import_", "sync": "sync"},
    "maintain": {
        "doctor": "doctor", "drain": "maintain", "compact": "maintain", "journal": "journal", "prune": "removal",
        "rm": "removal", "retain": "retain", "completion": "completion",
    },
}  # fmt: skip
"""Commands in the order of `rolltrace --help`, each with the module that declares it."""
_MODULES = {name: module for commands in _GROUPS.values() for name, module in commands.items()}
_HEADINGS = {next(iter(commands)): title for title, commands in _GROUPS.items()}
COMMANDS = tuple(_MODULES)
_PROGRAM = "rolltrace"
_DOCS = "documentation: rolltrace docs"
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NOT_PLAIN = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG, errno.ENXIO})
"""A file of a store that is a folder, a link, a pipe, or far too large."""
_ABOUT_ANSWERS = (IncompleteWarning, UnknownNameWarning)
_STOPPED = 130
"""What a shell expects of a program that Ctrl-C ended."""


class _Help(argparse.HelpFormatter):
    """Wraps each paragraph of one line; those with lines of their own, such as examples, stay as they are.

    The list of commands has a heading before each group of them.
    """

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        is_command = type(action) is argparse._SubParsersAction._ChoicesPseudoAction
        heading = _HEADINGS.get(action.dest) if is_command and self._prog == _PROGRAM else None
        return text if heading is None else f"  {heading}:\n{text}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(each if "\n" in each else fill(each, width, indent) for each in paragraphs)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser of ours; its subparsers are too.

    Options and other arguments may be mixed, so that the store can always come last: argparse alone gives `show ID` all
    arguments that stand before the first option, and finds no place for the store of `show ID --ops STORE`.
    """

    def __init__(self, *, epilog: str | None = None, **options: Any) -> None:
        epilog = _DOCS if epilog is None else f"{epilog}\n\n{_DOCS}"
        super().__init__(epilog=epilog, **{"formatter_class": _Help, **options})
        self._is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        takes_the_rest = (argparse.PARSER, argparse.REMAINDER)
        if self._is_mixing or any(action.nargs in takes_the_rest for action in self._actions):
            return super().parse_known_args(args, namespace)
        self._is_mixing = True  # it comes back here, once for the options and once for the other arguments
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except KeyboardInterrupt:
        _quiet_end()
        warn("stopped by Ctrl-C")
        return _STOPPED


def parser_of(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of these commands. Each module that is not loaded is some milliseconds less to wait."""
    parser = Parser(prog=_PROGRAM, description="Record what happens inside agentic-RL rollouts, and look at it.")
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name in names:
        module = import_module(f"rolltrace.cli.{_MODULES[name]}")
        getattr(module, "import_" if name == "import" else name).add(name, commands)
    return parser


def parse(words: list[str]) -> Options:
    """The options of a command line."""
    parser = parser_of([words[0]] if words and words[0] in COMMANDS else COMMANDS)
    options = parser.parse_args(_with_dashes(words), Options())
    options.find_store()
    return options


def _run(words: list[str]) -> int:
    options = parse(words)
    if options.version:
        import rolltrace

        print(f"rolltrace {rolltrace.__version__}")
        return 0
    if not hasattr(options, "run"):
        parser_of().print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to stop
    try:
        with _telling_of_missing():
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `rolltrace ... | head` has seen enough
        _quiet_end()
        return 0
    except RolltraceError as error:
        warn(error_text(error))
        return 1
    except OSError as error:
        refusal = _refusal_of(error, options.named_store())
        if refusal is None:
            raise
        warn(plain(refusal))
        return 1


def _with_dashes(words: list[str]) -> list[str]:
    """`--order -reward` as `--order=-reward`: argparse takes a value that begins with a dash for another option."""
    if words[:1] == ["run"]:  # the words of another program
        return words
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--order" and word.startswith("-") and not word.startswith("--"):
            joined[-1] = f"--order={word}"
        else:
            joined.append(word)
    return joined


def _quiet_end() -> None:
    """Drop what stdout still holds: Python flushes it on its way out, and would complain about a closed pipe."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _telling_of_missing() -> Iterator[None]:
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


def _refusal_of(error: OSError, store: Path | None) -> str | None:
    """What to say of something that this user may not do, or of a file that is none; None for any other error."""
    if error.errno in _NOT_PLAIN and store is not None and Path(str(error.filename)).is_relative_to(store):
        return (
            f"{str(error.filename)!r} cannot be used: {error.strerror}; see: rolltrace doctor {shlex.quote(str(store))}"
        )
    if error.errno not in _NOT_ALLOWED:
        return None
    why = None if store is None else write_problem(store)
    what = f"{error.strerror}: {str(error.filename)!r}" if error.filename is not None else str(error)
    return what if why is None else f"{what}; the store {str(store)!r} can only be read: {why}"
