"""The command line: one subcommand per file, each with `add(commands)` and a function that runs it.

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
from typing import Any, TextIO

from rolltrace.cli.options import find_store, named_store
from rolltrace.cli.output import error_text, plain
from rolltrace.errors import IncompleteWarning, RolltraceError, UnknownNameWarning
from rolltrace.files import write_problem

COMMANDS = (
    "run", "proxy", "demo", "view", "ls", "show", "groups", "diff", "plot", "label", "score", "tail", "live", "sql",
    "stats", "flags", "doctor", "export", "import", "collect", "sync", "drain", "compact", "prune", "rm", "retain",
    "journal", "docs", "completion",
)  # fmt: skip
"""In the order of `rolltrace --help`."""
_DOCS = "documentation: rolltrace docs"
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NOT_PLAIN = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG, errno.ENXIO})
"""A file of a store that is a folder, a link, a pipe, or far too large."""
_ABOUT_ANSWERS = (IncompleteWarning, UnknownNameWarning)
_STOPPED = 130
"""What a shell expects of a program that Ctrl-C ended."""


class _Help(argparse.HelpFormatter):
    """Wraps each paragraph of one line; those with lines of their own, such as examples, stay as they are."""

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
        print("rolltrace: stopped by Ctrl-C", file=sys.stderr)
        return _STOPPED


def parser_of(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of these commands. Each module that is not loaded is some milliseconds less to wait."""
    parser = Parser(prog="rolltrace", description="Record what happens inside agentic-RL rollouts, and look at it.")
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name in names:
        import_module(f"rolltrace.cli.{'import_' if name == 'import' else name}").add(commands)
    return parser


def parse(words: list[str]) -> argparse.Namespace:
    """The options of a command line."""
    parser = parser_of([words[0]] if words and words[0] in COMMANDS else COMMANDS)
    options = parser.parse_args(_with_dashes(words))
    find_store(options)
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
        print(f"rolltrace: {error_text(error)}", file=sys.stderr)
        return 1
    except OSError as fault:
        refusal = _refusal_of(fault, named_store(options))
        if refusal is None:
            raise
        print(f"rolltrace: {plain(refusal)}", file=sys.stderr)
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

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, _ABOUT_ANSWERS):
                print(f"rolltrace: {plain(str(message))}", file=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _refusal_of(fault: OSError, store: Path | None) -> str | None:
    """What to say of something that this user may not do, or of a file that is none; None for any other fault."""
    if fault.errno in _NOT_PLAIN and store is not None and Path(str(fault.filename)).is_relative_to(store):
        return (
            f"{str(fault.filename)!r} cannot be used: {fault.strerror}; see: rolltrace doctor {shlex.quote(str(store))}"
        )
    if fault.errno not in _NOT_ALLOWED:
        return None
    why = None if store is None else write_problem(store)
    what = f"{fault.strerror}: {str(fault.filename)!r}" if fault.filename is not None else str(fault)
    return what if why is None else f"{what}; the store {str(store)!r} can only be read: {why}"
