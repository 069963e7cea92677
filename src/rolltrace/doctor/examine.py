"""Check a store and say what to do about what is wrong. A new check is a function in `files` or `contents`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rolltrace._frameworks import frameworks
from rolltrace.doctor import contents, files
from rolltrace.doctor.finding import SHARE, Finding, opened
from rolltrace.errors import RolltraceError
from rolltrace.files import owner_of, write_problem


def examine_store(store: Path) -> Iterator[Finding]:
    """Everything that is to be said of a store, check by check."""
    readable = True
    opened.cache_clear()
    problem, owner = write_problem(store), owner_of(store)
    whose = "where the store can be written" if owner is None else f"as {owner}"
    for check in (*files.CHECKS, *contents.CHECKS):
        if not readable and check in contents.UNDERSTANDING:  # of a newer format: who knows what it says
            continue
        try:
            for finding in check(store):
                readable &= finding.check != "format" or finding.level != "problem"
                if problem is not None and finding.do and finding.do != SHARE:  # others have to do it
                    finding = finding._replace(do=f"{whose}: {finding.do}")
                yield finding
        except (RolltraceError, OSError, ValueError) as error:  # one sick check must not hide the others
            name = check.__name__.removeprefix("check_")
            yield Finding(
                "problem", name, f"cannot be checked: {error}", str(store), f"ls -lR {shlex.quote(str(store))}"
            )


def examine_framework(name: str) -> Iterator[Finding]:
    """Whether a framework can be traced in this environment."""
    (framework,) = (each for each in frameworks() if each.name == name)
    for answer in framework.examine():
        yield Finding("ok" if answer.ok else "problem", name, answer.what, "", answer.do)
