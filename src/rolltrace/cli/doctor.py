"""`rolltrace doctor`: check a store and say what to do about what is wrong."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rolltrace.cli.output import add_json, add_store, counted, json_line, paint, plain, size, store_of, working
from rolltrace.cli.stats import describe, drainer_is_running, undrained_bytes
from rolltrace.errors import FormatError, RolltraceError
from rolltrace.journal import (
    Damage,
    SegmentReader,
    is_shared,
    journal_files,
    journal_folder,
    owner_of,
    strange_files,
    write_problem,
)

if TYPE_CHECKING:
    from rolltrace.query import Store

_ENOUGH_FREE_BYTES = 512 << 20
_LOG_LINES = 3
_FEW = 3
_CLOCK_SEC = 60.0
_ADVICE = {
    "journal_full": "drain faster or allow more: init(max_unsent_bytes=...); see rolltrace docs config",
    "disk_full": "free some room on the disk; see: df -h",
    "damaged": "nothing brings them back; see the damaged journal places of the drainer's time",
    "journal_removed": "nobody may remove or cut files in STORE/journal while they are written",
    "after_shutdown": "call rolltrace.shutdown() after the last rollout",
    "refused_score": "a reward that is no number, or a score about nothing: the program's warnings name the lines; "
    "ROLLTRACE_STRICT=1 stops there",
    "unreadable": "see: rolltrace ls --where \"flag = 'unreadable'\"; the records are in the store's folder unreadable",
}
_SHARE = "ask for it to be shared with your group: its owner sets ROLLTRACE_SHARE=group, or init(share='group')"
"""What to do about a store of somebody else's."""
_COLOURS = {"ok": "green", "note": "cyan", "problem": "red"}


class Finding(NamedTuple):
    """One line of the report."""

    level: Literal["ok", "note", "problem"]
    check: str
    what: str
    where: str = ""
    do: str = ""
    """What to type next."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="check a store",
        description="Check format, permissions, journals, every page of every part, leftovers, losses, scores, checks, "
        "backends and disk room. It changes nothing. Exit code 1 if anything is wrong.",
        epilog="example: rolltrace doctor runs/store || rolltrace doctor runs/store --json | jq 'select(.do)'",
    )
    add_store(parser)
    add_json(parser)
    parser.add_argument("--verl", action="store_true", help="check instead whether verl, here, can be traced")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    problems = 0
    findings = _verl() if options.verl else _examine(store_of(options))
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


def _verl() -> Iterator[Finding]:
    from rolltrace.integrations.verl.report import examine

    for answer in examine():
        yield Finding("ok" if answer.ok else "problem", "verl", answer.what, "", answer.do)


def _print(finding: Finding) -> None:
    where = f": {plain(finding.where)}" if finding.where else ""
    print(f"{paint(f'{finding.level:<8}', _COLOURS[finding.level])} {finding.check:<12} {plain(finding.what)}{where}")
    if finding.do:
        print(f"{'':<21} {paint('->', 'bold')} {plain(finding.do)}")


def _examine(store: Path) -> Iterator[Finding]:
    readable = True
    _asked.cache_clear()
    problem, owner = write_problem(store), owner_of(store)
    whose = "where the store can be written" if owner is None else f"as {owner}"
    for check in (_format, _access, _permissions, _journals, _strange, _leftovers, *_ASKING, _disk, _log):
        if not readable and check in _ASKING:  # of a newer format: who knows what it says
            continue
        try:
            for finding in check(store):
                readable &= finding.check != "format" or finding.level != "problem"
                if problem is not None and finding.do and finding.do != _SHARE:  # others have to do it
                    finding = finding._replace(do=f"{whose}: {finding.do}")
                yield finding
        except (RolltraceError, OSError, ValueError) as fault:  # one sick part must not hide the others
            name = check.__name__.strip("_")
            yield Finding(
                "problem", name, f"cannot be checked: {fault}", str(store), f"ls -lR {shlex.quote(str(store))}"
            )


@lru_cache(maxsize=1)
def _asked(store: Path) -> Store:
    """The store, opened once: each opening lists all steps anew."""
    from rolltrace.query import open_store

    return open_store(store)


def _format(store: Path) -> Iterator[Finding]:
    from rolltrace.record.tables import FORMAT
    from rolltrace.store import check_version

    page = store / "format.json"
    if not page.exists():
        if any((store / "data").rglob("*.parquet")):
            yield Finding("problem", "format", "the version is missing", str(page), _command("drain --once", store))
        elif journal_files(store):
            yield Finding("ok", "format", "nothing was drained yet")
        else:
            yield Finding(
                "problem", "format", "this folder holds neither parts nor journals", str(store), "is it the right one?"
            )
        return
    try:
        check_version(store)
    except FormatError as fault:
        newer = "newer" in str(fault)
        do = "pip install -U rolltrace" if newer else f"echo '{{\"format\": {FORMAT}}}' > {shlex.quote(str(page))}"
        yield Finding("problem", "format", str(fault), str(page), do)
    except OSError as fault:
        yield Finding("problem", "format", fault.strerror or str(fault), str(page), f"ls -l {shlex.quote(str(page))}")
    else:
        yield Finding("ok", "format", f"version {FORMAT}")


def _access(store: Path) -> Iterator[Finding]:
    """Whether the store is somebody else's, or can only be read."""
    problem, owner = write_problem(store), owner_of(store)
    if problem is not None:
        yield Finding("note", "access", f"you can only read this store: {problem}", str(store))
    elif owner is not None:
        yield Finding("note", "access", f"the store belongs to {owner}; you can write to it too", str(store))
    else:
        yield Finding("ok", "access", "the store is yours")


def _permissions(store: Path) -> Iterator[Finding]:
    found = False
    shared = is_shared(store)
    wider = store.stat().st_mode & (0o007 if shared else 0o077)
    if wider:
        what = f"others than {'its group' if shared else 'its owner'} can look into the store (mode {_mode(store):03o})"
        do = f"chmod {'2770' if shared else '700'} {shlex.quote(str(store))}"
        yield Finding("note", "permissions", what, str(store), do)
    journals = store / "journal"
    if journals.is_dir() and not _is_readable(journals):
        found = True
        yield _unreadable("permissions", journals)
    for path in [
        *(store / "journal").glob("*"),
        *(store / "journal").glob("*/*.seg"),
        *(store / "journal").glob("*/*.open"),
    ]:
        try:
            mode = _mode(path)
        except OSError:  # drained since it was listed
            continue
        right = (0o770 if path.is_dir() else 0o660) if shared else (0o700 if path.is_dir() else 0o600)
        if mode & ~right:
            found = True
            what = f"others can get at what was traced (mode {mode:03o})"
            yield Finding("problem", "permissions", what, str(path), f"chmod {right:o} {shlex.quote(str(path))}")
        if not _is_readable(path):
            found = True
            yield _unreadable("permissions", path)
    if not found:
        yield Finding("ok", "permissions", "journals are the group's" if shared else "journals are private")


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))


def _unreadable(check: str, path: Path) -> Finding:
    """Something that we may not read: its owner can share it, or it is ours and its mode is wrong."""
    owner = owner_of(path)
    if owner is not None:
        return Finding("problem", check, f"not readable by you; it belongs to {owner}", str(path), _SHARE)
    right = f"u+r{'x' * path.is_dir()}"
    what = f"not readable by you (mode {_mode(path):03o})"
    return Finding("problem", check, what, str(path), f"chmod {right} {shlex.quote(str(path))}")


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def _journals(store: Path) -> Iterator[Finding]:
    states: Counter[str] = Counter()
    waiting: Counter[Path] = Counter()
    here, running = journal_folder(store), drainer_is_running(store)
    for path in journal_files(store):
        try:
            segment, damage = _read(path)
        except (FileNotFoundError, PermissionError):  # `_permissions` names what is not ours to read
            continue
        except OSError as fault:
            do = f"mv {shlex.quote(str(path))} {shlex.quote(str(path) + '.bad')}"
            newer = isinstance(fault, FormatError) and "newer" in str(fault)
            yield Finding("problem", "journals", str(fault), str(path), "pip install -U rolltrace" if newer else do)
            continue
        states[segment.state] += 1
        if segment.state != "live":
            waiting[path.parent] += 1
        for place in damage:
            what = f"{counted(place.size_bytes, 'byte')} cannot be read ({place.reason})"
            do = f"{_command('journal dump', store)}  shows what can; the drainer takes all of that"
            yield Finding("problem", "journals", what, f"{path}, at byte {place.offset}", do)
    drainer = "a drainer is at work" if running else "no drainer is at work"
    if running is None:
        drainer = "whether a drainer is at work cannot be told"
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    yield Finding("ok", "journals", f"{summary}; {drainer} on this host")
    for folder, count in sorted(waiting.items()):
        what = f"{counted(count, 'finished journal file')} and nobody to drain"
        if folder != here:
            what = f"{counted(count, 'journal file')} of another host, which only a drainer there can take"
            yield Finding("note", "journals", what, str(folder), f"on {folder.name}: {_command('drain --once', store)}")
        elif running is False:
            yield Finding("problem", "journals", what, str(folder), _command("drain --once", store))


def _read(path: Path) -> tuple[SegmentReader, list[Damage]]:
    segment = SegmentReader.open(path)
    damage = [item for item in segment if isinstance(item, Damage)]
    if damage and segment.state == "live":  # perhaps a record was being written just then
        segment = SegmentReader.open(path)
        damage = [item for item in segment if item in damage and isinstance(item, Damage)]
    return segment, damage


def _strange(store: Path) -> Iterator[Finding]:
    """What stands among the journals and is drained by nobody."""
    for path, problem in strange_files(store):
        away = f"mv {shlex.quote(str(path))} /somewhere/else"
        yield Finding("problem", "journals", f"left alone: {problem}", str(path), away)
    for path in sorted((store / "journal").glob("*/*.seg.aside")):
        again = f"mv {shlex.quote(str(path))} {shlex.quote(str(path).removesuffix('.aside'))}"
        what = "a segment that the drainer failed on twice, and set aside; drainer.log says why"
        yield Finding("problem", "journals", what, str(path), f"to try it again, with a newer rolltrace: {again}")


def _leftovers(store: Path) -> Iterator[Finding]:
    from rolltrace.store import is_abandoned, unfinished_files

    found = False
    aside = (path.with_suffix("") for path in (store / "journal").glob("*/*.seg.aside"))
    journals = {path.stem.rpartition("-")[0] for path in (*journal_files(store), *aside)}
    for path in unfinished_files(store):
        if is_abandoned(path, youngest_sec=0.0):
            found = True
            do = f"rm {shlex.quote(str(path))}"
            yield Finding("problem", "leftovers", "a file that a killed process did not finish", str(path), do)
    for path in sorted((store / "journal").glob("*/*.open")):
        if path.stem.rpartition("-")[0] not in journals:
            found = True
            do = f"rm {shlex.quote(str(path))}"
            yield Finding("problem", "leftovers", "open ops of a writer that is gone", str(path), do)
    if not found:
        yield Finding("ok", "leftovers", "none")


def _hosts(store: Path) -> Iterator[Finding]:
    """Which hosts write to the store, and whether their clocks agree."""
    from rolltrace.store import busy_hosts, other_hosts

    others = other_hosts(store)
    if others:
        what = (
            f"{counted(len(others) + 1, 'host')} share this store, {len(busy_hosts(store))} of the others with journals"
        )
        yield Finding("note", "hosts", f"{what}; each merges, prunes and sends what it brought", ", ".join(others))
    ahead: dict[str, float] = {}
    for path in journal_files(store):
        try:
            # When the file was begun, by the clock of its writer and by that of the file system.
            difference_sec = SegmentReader.open(path).meta.get("created_ns", 0) / 1e9 - path.stat().st_mtime
        except (OSError, TypeError):
            continue
        ahead[path.parent.name] = max(difference_sec, ahead.get(path.parent.name, 0.0))
    for host, difference_sec in sorted(ahead.items()):
        if difference_sec > _CLOCK_SEC:
            what = f"its clock is {_age(difference_sec)} ahead of the file system's"
            yield Finding(
                "problem", "clocks", what, host, "set it right: of two scores the one with the later time counts"
            )
    latest = _latest_ns(store) / 1e9 - time.time()
    if latest > _CLOCK_SEC:
        what = f"there are times up to {_age(latest)} ahead of this host's clock"
        do = _command("sql 'select worker, max(start_ns) from spans group by worker order by 2 desc'", store)
        yield Finding("problem", "clocks", what, "", do)


def _latest_ns(store: Path) -> int:
    (row,) = _asked(store).sql("SELECT max(start_ns) AS latest FROM trajectories").rows()
    return row["latest"] or 0


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _parts(store: Path) -> Iterator[Finding]:
    from rolltrace.store import SCHEMAS, data_folder, foreign_entries, hidden_parts, list_parts, step_folders, table_of

    damaged = dict(_asked(store).damaged(thorough=True))
    visible, bad = list_parts(store), 0
    for part in visible:
        away = f"mv {shlex.quote(str(part))} {shlex.quote(str(part) + '.bad')}"
        if table_of(part) not in SCHEMAS:
            bad += 1
            what = f"a part of a table that this rolltrace does not know, {table_of(part)!r}"
            yield Finding("problem", "parts", what, str(part), f"pip install -U rolltrace, or give it up: {away}")
        elif not _is_readable(part):
            bad += 1
            yield _unreadable("parts", part)
        elif part in damaged:
            bad += 1
            what, do = f"damaged ({damaged[part]})", f"put a copy in its place, or give it up: {away}"
            yield Finding("problem", "parts", what, str(part), do)
    for folder in damaged:
        if folder.is_dir() and data_folder(store) in (folder, *folder.parents):
            bad += 1
            yield _unreadable("parts", folder)
    merged = [part for folder in step_folders(store) for part in hidden_parts(folder)]
    if merged:
        what = f"{counted(len(merged), 'part')} merged into others, which the drainer removes after half a minute"
        yield Finding("note", "parts", what, "", "" if drainer_is_running(store) else _command("compact", store))
    for path in foreign_entries(store):
        bad += 1
        what = "a symbolic link, which is not followed" if path.is_symlink() else "not a part of this store"
        yield Finding("problem", "parts", what, str(path), f"mv {shlex.quote(str(path))} /somewhere/else")
    if not bad:
        yield Finding("ok", "parts", f"{counted(len(visible), 'part')}, every page as it was written")


def _rows(store: Path) -> Iterator[Finding]:
    doubled = _asked(store).sql(
        "SELECT op_id, any_value(trajectory_id) AS trajectory_id, count(*) AS count FROM _spans "
        "WHERE op_id IS NOT NULL GROUP BY op_id HAVING count(*) > 1 ORDER BY op_id"
    )
    rows = doubled.rows()
    if not rows:
        yield Finding("ok", "rows", "every op once")
        return
    few = ", ".join(str(row["trajectory_id"]) for row in rows[:_FEW])
    what = f"{counted(len(rows), 'op')} stored more than once, such as in {few}"
    do = _command("sql 'select op_id, count(*) from spans group by op_id having count(*) > 1'", store)
    yield Finding("problem", "rows", what, "", do)


def _losses(store: Path) -> Iterator[Finding]:
    from rolltrace.query import BY_CHOICE

    reasons: Counter[str] = Counter()
    for row in _asked(store).losses():
        reasons[row["reason"]] += row["count"]
    for reason, count in sorted(reasons.items()):
        if reason in BY_CHOICE:
            yield Finding("note", "losses", f"{counted(count, 'record')} left out by choice: {reason}")
        else:
            do = _ADVICE.get(reason, _command("sql 'select * from losses'", store))
            yield Finding("problem", "losses", f"{counted(count, 'record')} lost: {reason}", "", do)
    if not reasons:
        yield Finding("ok", "losses", "none")


def _scores(store: Path) -> Iterator[Finding]:
    found = _asked(store).unmatched_scores().rows()
    if not found:
        yield Finding("ok", "scores", "every score has its trajectory")
        return
    few = [f"{row['name']} for {_target(row)}" for row in found[:_FEW]] + ["..."] * (len(found) > _FEW)
    what = f"{counted(len(found), 'score')} for trajectories that this store does not have (not traced, or not yet)"
    do = _command("sql 'select * from unmatched_scores'", store)
    yield Finding("note", "scores", what, ", ".join(few), do)


def _target(row: dict[str, Any]) -> str:
    if row["trajectory_id"] is not None:
        return str(row["trajectory_id"])
    place = f"step {row['step']}, sample {row['sample_index']}, rollout {row['rollout_n']}"
    return f"({place}{', validation' if row['validate'] else ''})"


def _checks(store: Path) -> Iterator[Finding]:
    from rolltrace.flags import CHECK_FAILED, FLAGS
    from rolltrace.keeper.plugin_checks import installed

    plugins = installed()
    loaded = ", ".join(f"{each.name} ({each.package})" for each in plugins if each.check is not None)
    yield Finding("ok", "checks", f"{counted(len(FLAGS), 'check')} built in; plug-ins: {loaded or 'none'}")
    for plugin in plugins:
        if plugin.check is None:
            what = f"the plug-in {plugin.name} cannot be loaded: {plugin.problem}"
            yield Finding(
                "problem", "checks", what, plugin.package, f"pip show {shlex.quote(plugin.package.split()[0])}"
            )
    failed = _asked(store).sql(
        "SELECT json_extract_string(detail, '$.check') AS name, count(DISTINCT trajectory_id) AS count, "
        "arg_max(json_extract_string(detail, '$.error'), time_ns) AS error FROM flags WHERE flag = ? "
        "GROUP BY name ORDER BY name",
        [CHECK_FAILED.name],
    )
    for row in failed:
        what = f"{row['name']} failed on {counted(row['count'], 'trajectory')}, at last with {row['error']}"
        where = shlex.quote(f"flag = '{CHECK_FAILED.name}'")
        yield Finding("problem", "checks", what, "", f"rolltrace ls --where {where} {shlex.quote(str(store))}")


def _backends(store: Path) -> Iterator[Finding]:
    from rolltrace.keeper.report import reports

    for report in reports(_asked(store)):
        name = report.backend
        again = _command(f"sync --to {shlex.quote(name)}", store)
        what = f"{name}: {describe(report._asdict())}"
        if report.stopped:
            yield Finding("problem", "backends", what, "", f"when that is put right: {again}")
        elif report.pending and not report.at_work:
            yield Finding("problem", "backends", f"{what}; nobody sends it", "", again)
        elif report.pending and report.last_error:
            yield Finding("problem", "backends", what, "", "it is tried again by itself; see the vendor's own log")
        else:
            yield Finding("ok", "backends", what)
        for reason, count in sorted(report.reasons.items()):
            yield Finding("note", "backends", f"{name} refused {counted(count, 'trajectory')}: {reason}")


def _disk(store: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(store).free
    waiting = sum(map(undrained_bytes, journal_files(store)))
    what = f"{size(free)} free, {size(waiting)} to drain"
    if free < max(_ENOUGH_FREE_BYTES, waiting):
        yield Finding("problem", "disk", what, str(store), f"df -h {shlex.quote(str(store))}; rolltrace prune --help")
    else:
        yield Finding("ok", "disk", what)


def _log(store: Path) -> Iterator[Finding]:
    from rolltrace.keeper.clean_output import Cleaner

    cleaner = Cleaner(store)
    for path in sorted([*(store / "journal").glob("*/drainer.log"), *(store / "outbox").glob("*/*/sender.log")]):
        try:
            lines = path.read_text(errors="replace").rstrip().split("\n")
        except OSError:
            continue
        if any(lines):
            who = "the drainer" if path.name == "drainer.log" else f"the sender of {path.parent.parent.name}"
            what = cleaner.text(f"{who} said: " + " | ".join(line.strip() for line in lines[-_LOG_LINES:]))
            yield Finding("note", path.stem, what, "", f"tail {shlex.quote(str(path))}")


_ASKING = (_hosts, _parts, _rows, _losses, _scores, _checks, _backends)
"""The checks that have to understand the store."""


def _command(words: str, store: Path) -> str:
    return f"rolltrace {words} {shlex.quote(str(store))}"
