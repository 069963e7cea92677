"""The command line: one subcommand per file, each with `add(commands)` and a function that runs it.

Every command takes the store as its last argument or as `--store`, or from `ROLLTRACE_STORE`, or `~/.rolltrace`. An
error that rolltrace foresees is one line on stderr (on a terminal, with the place marked) and exit code 1; wrong usage
is exit code 2; Ctrl-C is one line and exit code 130.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from rolltrace.cli.missing import refusal_of, telling_of_missing
from rolltrace.cli.output import error_text, named_store, plain
from rolltrace.cli.parser import Parser
from rolltrace.errors import RolltraceError

COMMANDS = (
    "demo", "view", "ls", "show", "groups", "diff", "plot", "score", "tail", "live", "sql", "stats", "flags", "doctor",
    "export", "import", "sync", "drain", "compact", "prune", "retain", "journal", "docs", "completion",
)  # fmt: skip
"""In the order of `rolltrace --help`."""
_STOPPED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
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


def _run(given: list[str]) -> int:
    parser = parser_of([given[0]] if given and given[0] in COMMANDS else COMMANDS)
    options = parser.parse_args(_with_dashes(given))
    if options.version:
        import rolltrace

        print(f"rolltrace {rolltrace.__version__}")
        return 0
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to stop
    try:
        with telling_of_missing():
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
        refusal = refusal_of(fault, named_store(options))
        if refusal is None:
            raise
        print(f"rolltrace: {plain(refusal)}", file=sys.stderr)
        return 1


def _with_dashes(given: list[str]) -> list[str]:
    """`--order -reward` as `--order=-reward`: argparse takes a value that begins with a dash for another option."""
    joined: list[str] = []
    for word in given:
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
