"""`rolltrace doctor`: check a store and say what to do about what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from rolltrace._amounts import counted
from rolltrace._frameworks import frameworks
from rolltrace.cli.command import command, option
from rolltrace.cli.options import JSON, STORE, Options
from rolltrace.cli.output import paint, plain, working
from rolltrace.doctor import Finding, examine_framework, examine_store

_COLOURS = {"ok": "green", "note": "cyan", "problem": "red"}


@command(
    "check a store",
    "Check format, permissions, journals, every byte of every data file, leftovers, losses, scores, checks, backends "
    "and disk room. It changes nothing. Exit code 1 if anything is wrong.",
    STORE,
    JSON,
    *(
        option(
            f"--{framework.name}",
            f"check instead whether {framework.name} can be traced in this environment",
            dest="framework",
            flag_value=framework.name,
        )
        for framework in frameworks()
    ),
    epilog="example: rolltrace doctor runs/store || rolltrace doctor runs/store --json | jq 'select(.do)'",
)
def doctor(options: Options) -> int:
    problems = 0
    findings = examine_framework(options.framework) if options.framework else examine_store(options.store_path())
    while (finding := _next(findings)) is not None:
        problems += finding.level == "problem"
        options.report(finding._asdict(), _text(finding))
    if not options.json:
        print(counted(problems, "problem") if problems else "all is well")
    return 1 if problems else 0


def _next(findings: Iterator[Finding]) -> Finding | None:
    with working("checking"):
        return next(findings, None)


def _text(finding: Finding) -> str:
    where = f": {plain(finding.where)}" if finding.where else ""
    level = paint(f"{finding.level:<8}", _COLOURS[finding.level])
    advice = f"\n{'':<21} {paint('->', 'bold')} {plain(finding.do)}" if finding.do else ""
    return f"{level} {finding.check:<12} {plain(finding.what)}{where}{advice}"
