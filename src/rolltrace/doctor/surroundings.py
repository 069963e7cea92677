"""What the store depends on: backends that it is sent to, room on the disk, what our own processes logged."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from rolltrace._amounts import counted, size
from rolltrace.doctor.finding import Finding, command, opened
from rolltrace.drain import find_waiting
from rolltrace.files import open_private
from rolltrace.journal import journal_folders

_ENOUGH_FREE_BYTES = 512 << 20
_LOG_LINES = 3
_LOG_BYTES = 64 << 10


def check_backends(store: Path) -> Iterator[Finding]:
    from rolltrace.keeper import reports

    for report in reports(opened(store)):
        name = report.backend
        again = command(f"sync --to {shlex.quote(name)}", store)
        what = f"{name}: {report.in_words()}"
        if report.stopped:
            yield Finding("problem", "backends", what, "", f"when that is fixed: {again}")
        elif report.pending and not report.at_work:
            yield Finding("problem", "backends", f"{what}; no sender is running", "", again)
        elif report.pending and report.last_error:
            yield Finding("problem", "backends", what, "", "it is tried again by itself; see the vendor's own log")
        else:
            yield Finding("ok", "backends", what)
        for reason, count in sorted(report.reasons.items()):
            yield Finding("note", "backends", f"{name} refused {counted(count, 'trajectory')}: {reason}")


def check_disk(store: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(store).free
    waiting = sum(find_waiting(store).values())
    what = f"{size(free)} free, {size(waiting)} to drain"
    if free < max(_ENOUGH_FREE_BYTES, waiting):
        yield Finding("problem", "disk", what, str(store), f"df -h {shlex.quote(str(store))}; rolltrace prune --help")
    else:
        yield Finding("ok", "disk", what)


def check_log(store: Path) -> Iterator[Finding]:
    from rolltrace.keeper import Cleaner

    cleaner = Cleaner(store)
    for path in sorted(
        [*(folder / "drainer.log" for folder in journal_folders(store)), *(store / "outbox").glob("*/*/sender.log")]
    ):
        try:
            with open_private(path) as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_BYTES))
                lines = log.read(_LOG_BYTES).decode(errors="replace").rstrip().split("\n")
        except OSError:
            continue
        if any(lines):
            who = "the drainer" if path.name == "drainer.log" else f"the sender of {path.parent.parent.name}"
            what = cleaner.text(f"{who} said: " + " | ".join(line.strip() for line in lines[-_LOG_LINES:]))
            yield Finding("note", path.stem, what, "", f"tail {shlex.quote(str(path))}")
