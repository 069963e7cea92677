"""`rolltrace doctor`: check a store and say what to do about what is wrong."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from rolltrace._amounts import counted
from rolltrace._frameworks import frameworks
from rolltrace.cli.options import add_json, add_store, store_of
from rolltrace.cli.output import json_line, paint, plain, working
from rolltrace.doctor import Finding, examine_framework, examine_store

_COLOURS = {"ok": "green", "note": "cyan", "problem": "red"}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="check a store",
        description="Check format, permissions, journals, every byte of every data file, leftovers, losses, scores, "
        "checks, backends and disk room. It changes nothing. Exit code 1 if anything is wrong.",
        epilog="example: rolltrace doctor runs/store || rolltrace doctor runs/store --json | jq 'select(.do)'",
    )
    add_store(parser)
    add_json(parser)
    for framework in frameworks():
        parser.add_argument(
            f"--{framework.name}",
            dest="framework",
            action="store_const",
            const=framework.name,
            help=f"check instead whether {framework.name} can be traced in this environment",
        )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    problems = 0
    findings = examine_framework(options.framework) if options.framework else examine_store(store_of(options))
    while (finding := _next(findings)) is not None:
        problems += finding.level == "problem"
        if options.json:
            print(json_line(finding._asdict()))
        else:
            _print(finding)
    if not options.json:
        print(counted(problems, "problem") if problems else "all is well")
    return 1 if problems else 0


def _next(findings: Iterator[Finding]) -> Finding | None:
    with working("checking"):
        return next(findings, None)


def _print(finding: Finding) -> None:
    where = f": {plain(finding.where)}" if finding.where else ""
    print(f"{paint(f'{finding.level:<8}', _COLOURS[finding.level])} {finding.check:<12} {plain(finding.what)}{where}")
    if finding.do:
        print(f"{'':<21} {paint('->', 'bold')} {plain(finding.do)}")
