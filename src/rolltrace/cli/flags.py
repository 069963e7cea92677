"""`rolltrace flags`: every flag, with its meaning."""

from __future__ import annotations

import argparse
from typing import Any

from rolltrace.cli.options import add_json
from rolltrace.cli.output import json_line, paint
from rolltrace.flags import ALWAYS_ON, FLAGS


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "flags",
        help="what each flag means",
        description="Every flag that rolltrace sets. More about each of them: rolltrace docs flags.",
        epilog="example: rolltrace ls --where \"flag = 'prefix_break'\"",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    for flag in (*FLAGS, *ALWAYS_ON):
        print(json_line(flag._asdict()) if options.json else f"{paint(f'{flag.name:<16}', 'bold')} {flag.meaning}")
    return 0
