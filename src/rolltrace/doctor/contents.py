"""What is in the store, and what it depends on: hosts, tables, rows, losses, scores, checks of trajectories, backends,
room on the disk, what our own processes logged."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace._address import address_in
from rolltrace._amounts import counted, duration, size
from rolltrace.doctor.finding import Finding, command, is_readable, opened, unreadable
from rolltrace.drain import find_waiting
from rolltrace.files import host_name, open_private
from rolltrace.journal import SegmentReader, journal_files, journal_folder, journal_folders, undrained_elsewhere
from rolltrace.tables import LOG, TABLE_SCHEMAS, find_torn_entry

_FEW = 3
_MAX_NAMED = 10
_MAX_CLOCK_SEC = 60.0
_ENOUGH_FREE_BYTES = 512 << 20
_LOG_LINES = 3
_LOG_BYTES = 64 << 10
_ADVICE = {
    "journal_full": "drain faster or allow more: ROLLTRACE_MAX_UNSENT_BYTES; see: rolltrace docs config",
    "disk_full": "free some disk space; see: df -h",
    "damaged": "these cannot be recovered; the drainer's log names the damaged places",
    "journal_removed": "do not remove or truncate files in STORE/journal while they are being written",
    "after_shutdown": "call rolltrace.shutdown() after the last rollout",
    "refused_score": "a reward that is not a number, or a score without a target: the program's warnings name the "
    "lines; ROLLTRACE_STRICT=1 stops there",
    "unrecorded_request": "requests that rolltrace proxy passed on in a protocol that it does not know; its log names "
    "their paths",
    "answer_too_large": "answers that rolltrace proxy passed on and did not record; see: rolltrace docs proxy",
    "untraced_rollout": "they were made by an agent loop manager of your own; see: rolltrace docs verl",
    "unreadable": "see: rolltrace ls --where \"flag = 'unreadable'\"; the records are in the store's folder unreadable",
}


def check_hosts(store: Path) -> Iterator[Finding]:
    """Which hosts write to the store, and whether their clocks agree."""
    others = sorted(
        folder for folder in (store / "journal").glob("*") if folder.is_dir() and folder.name != host_name()
    )
    if others:
        elsewhere = {host for host, _ in undrained_elsewhere(store)}
        busy = sum(folder.name in elsewhere or any(folder.glob("*.seg")) for folder in others)
        what = f"{counted(len(others) + 1, 'host')} share this store, {busy} of the others with journals"
        yield Finding("note", "hosts", what, ", ".join(folder.name for folder in others))
    ahead: dict[str, float] = {}
    for path in journal_files(store):
        try:
            # When the file was begun, by the clock of its writer and by that of the file system.
            difference_sec = SegmentReader.open(path).meta.get("created_ns", 0) / 1e9 - path.stat().st_mtime
        except (OSError, TypeError):
            continue
        ahead[path.parent.name] = max(difference_sec, ahead.get(path.parent.name, 0.0))
    for host, difference_sec in sorted(ahead.items()):
        if difference_sec > _MAX_CLOCK_SEC:
            what = f"its clock is {_age(difference_sec)} ahead of the file system's"
            yield Finding(
                "problem", "clocks", what, host, "correct the clock: of two scores, the one with the later time counts"
            )
    latest = _latest_ns(store) / 1e9 - time.time()
    if latest > _MAX_CLOCK_SEC:
        what = f"there are times up to {_age(latest)} ahead of this host's clock"
        do = command("sql 'select worker, max(start_ns) from ops group by worker order by 2 desc'", store)
        yield Finding("problem", "clocks", what, "", do)


def _latest_ns(store: Path) -> int:
    (row,) = opened(store).sql("SELECT max(start_ns) AS latest FROM trajectories").rows()
    return row["latest"] or 0


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def check_tables(store: Path) -> Iterator[Finding]:
    """Every byte of every data file, and the newest entry of every log."""
    address = address_in(store)
    if address.folder is None:
        files = sum(opened(store).stored().rows.values())
        yield Finding("ok", "tables", f"{counted(files, 'row')} at {address.url}; their content is not checked there")
        return
    bad = 0
    for path in filter(None, (find_torn_entry(address.folder / schema.name / LOG) for schema in TABLE_SCHEMAS)):
        bad += 1
        what = "the newest entry of a log is incomplete, as a power cut leaves it; its rows are still in the journals"
        yield Finding("problem", "tables", what, str(path), command("store drain --once", store))
    for path, why in opened(store).damaged(thorough=True):
        if store / "journal" in path.parents or journal_folder(store) in path.parents:
            continue  # the check of journals names these
        bad += 1
        if path.is_file() and not is_readable(path):
            yield unreadable("tables", path)
        else:
            do = "restore it from a copy; answers leave it out, and say so"
            yield Finding("problem", "tables", f"damaged ({why})", str(path), do)
    if not bad:
        stored = opened(store).stored()
        yield Finding("ok", "tables", f"{counted(stored.files, 'file')}, every byte as it was written")


def check_rows(store: Path) -> Iterator[Finding]:
    doubled = opened(store).sql(
        "SELECT op_id, any_value(trajectory_id) AS trajectory_id, count(*) AS count FROM ops "
        "WHERE op_id IS NOT NULL GROUP BY op_id HAVING count(*) > 1 ORDER BY op_id"
    )
    rows = doubled.rows()
    if not rows:
        yield Finding("ok", "rows", "every op once")
        return
    few = ", ".join(str(row["trajectory_id"]) for row in rows[:_FEW])
    what = f"{counted(len(rows), 'op')} stored more than once, such as in {few}"
    do = command("sql 'select op_id, count(*) from ops group by op_id having count(*) > 1'", store)
    yield Finding("problem", "rows", what, "", do)


def check_running(store: Path) -> Iterator[Finding]:
    """What looks hung: an op, or the time since the last one, takes many times as long as usual."""
    from rolltrace.query import pulse_of

    rows = pulse_of(opened(store)).rows
    hung = [row for row in rows if row["pace"] == "hung"]
    for row in hung[:_MAX_NAMED]:
        waits = [("no op", row["idle_s"], row["idle_p95_s"]), (row["current_op"], row["op_age_s"], row["op_p95_s"])]
        told = [
            f"{what} for {duration(age_s)}" + (f" (usually {duration(p95_s)} at most)" if p95_s is not None else "")
            for what, age_s, p95_s in waits
            if age_s is not None
        ]
        what = f"trajectory {row['trajectory_id']} looks hung: {', '.join(told)}"
        yield Finding("note", "running", what, str(row["worker"]), command("live", store))
    yield Finding("ok", "running", f"{counted(len(rows), 'trajectory')}, {len(hung) or 'none'} of them hung")


def check_losses(store: Path) -> Iterator[Finding]:
    from rolltrace.query import BY_CHOICE

    reasons: Counter[str] = Counter()
    for row in opened(store).losses():
        reasons[row["reason"]] += row["count"]
    for reason, count in sorted(reasons.items()):
        if reason in BY_CHOICE:
            yield Finding("note", "losses", f"{counted(count, 'record')} left out by choice: {reason}")
        else:
            do = _ADVICE.get(reason, command("sql 'select * from losses'", store))
            yield Finding("problem", "losses", f"{counted(count, 'record')} lost: {reason}", "", do)
    if not reasons:
        yield Finding("ok", "losses", "none")


def check_scores(store: Path) -> Iterator[Finding]:
    unmatched = opened(store).unmatched_scores().rows()
    if not unmatched:
        yield Finding("ok", "scores", "every score has its trajectory")
        return
    what = f"{counted(len(unmatched), 'score')} without a trajectory: none that they may mean had begun by then"
    do = command("sql 'select * from unmatched_scores'", store)
    yield Finding("note", "scores", f"{what} (not traced, not here yet, or begun later)", "", do)
    for row in unmatched[:_MAX_NAMED]:
        when = "" if row["time_ns"] is None else f", given {_utc(row['time_ns'])}"
        whose = f"{row['project']} / {row['experiment']}"
        source = f" by {row['worker']}" + (f" of run {row['run']}" if row["run"] else "")
        yield Finding("note", "scores", f"{row['name']} for {_target(row)}{when}{source}", whose)


def _utc(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ns / 1e9))


def _target(row: dict[str, Any]) -> str:
    if row["trajectory_id"] is not None:
        return str(row["trajectory_id"])
    place = f"step {row['step']}, sample {row['sample_index']}, rollout {row['rollout_n']}"
    return f"({place}{', validation' if row['validate'] else ''})"


def check_checks(store: Path) -> Iterator[Finding]:
    from rolltrace.flags import CHECK_FAILED, FLAGS
    from rolltrace.keeper import installed_checks

    plugins = installed_checks()
    loaded = ", ".join(f"{each.name} ({each.package})" for each in plugins if each.check is not None)
    yield Finding("ok", "checks", f"{counted(len(FLAGS), 'check')} built in; plug-ins: {loaded or 'none'}")
    for plugin in plugins:
        if plugin.check is None:
            what = f"the plug-in {plugin.name} cannot be loaded: {plugin.problem}"
            yield Finding(
                "problem", "checks", what, plugin.package, f"pip show {shlex.quote(plugin.package.split()[0])}"
            )
    failed = opened(store).sql(
        "SELECT json_extract_string(detail, '$.check') AS name, count(DISTINCT trajectory_id) AS count, "
        "arg_max(json_extract_string(detail, '$.error'), time_ns) AS error FROM flags WHERE flag = ? "
        "GROUP BY name ORDER BY name",
        [CHECK_FAILED.name],
    )
    for row in failed:
        what = f"{row['name']} failed on {counted(row['count'], 'trajectory')}, at last with {row['error']}"
        where = shlex.quote(f"flag = '{CHECK_FAILED.name}'")
        yield Finding("problem", "checks", what, "", f"rolltrace ls --where {where} {shlex.quote(str(store))}")


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
        yield Finding(
            "problem", "disk", what, str(store), f"df -h {shlex.quote(str(store))}; rolltrace store prune --help"
        )
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


UNDERSTANDING = (
    check_hosts, check_tables, check_rows, check_running, check_losses, check_scores, check_checks, check_backends,
)  # fmt: skip
"""The checks that have to understand the store."""
CHECKS = (*UNDERSTANDING, check_disk, check_log)
