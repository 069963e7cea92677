"""The command line: one subcommand per file, each with `add(commands)` and a function that runs it.

Every command takes the store as its argument, or from `ROLLTRACE_STORE`, or `~/.rolltrace`. An error that
rolltrace foresees is one line on stderr (on a terminal, with the place marked) and exit code 1; wrong usage is exit
code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from rolltrace.cli import (
    compact,
    diff,
    doctor,
    drain,
    export,
    flags,
    groups,
    import_,
    journal,
    live,
    ls,
    prune,
    retain,
    score,
    show,
    sql,
    stats,
    sync,
    tail,
)
from rolltrace.cli.output import error_text
from rolltrace.errors import RolltraceError

COMMANDS = (
    ls, show, groups, diff, score, tail, live, sql, stats, flags, doctor, export, import_, sync, drain, compact, prune,
    retain, journal,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    parser = argparse.ArgumentParser(
        prog="rolltrace", description="Record what happens inside agentic-RL rollouts, and look at it."
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add(commands)
    options = parser.parse_args(arguments)
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
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `rolltrace ... | head` has seen enough
        # Python flushes stdout once more on its way out and would complain about the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except RolltraceError as error:
        print(f"rolltrace: {error_text(error)}", file=sys.stderr)
        return 1
