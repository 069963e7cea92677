"""`rolltrace stats`: how large a store is and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace._address import address_in
from rolltrace._amounts import ago, counted, number, size
from rolltrace.cli.command import command
from rolltrace.cli.options import JSON, PASS, STORE, Options
from rolltrace.cli.output import json_line, plain, working
from rolltrace.cli.passing import read_passing
from rolltrace.journal import drainer_is_running, journal_files, journal_folder, undrained_elsewhere

if TYPE_CHECKING:
    from rolltrace.keeper import Report
    from rolltrace.query import Store


@command(
    "sizes and counts",
    "The size of a store, its row counts, what is still to be drained, what was lost, and how many trajectories have "
    "each flag.",
    STORE,
    PASS,
    JSON,
    epilog="example: rolltrace stats --json | jq .bytes.data",
)
def stats(options: Options) -> int:
    store = options.store_path()
    with working(f"reading {store}"):
        facts, sending = _gather(store, options)
    if options.json:
        print(json_line(facts))
        return 0
    rows, sizes, losses = facts["rows"], facts["bytes"], facts["losses"]
    print(facts["store"])
    _line("trajectories", f"{facts['trajectories']}, {facts['running']} running")
    _line("experiments", facts["experiments"])

    def place(row: dict[str, Any]) -> str:
        return f"  ({plain(row['project'])} / {plain(row['experiment'])})" if facts["experiments"] > 1 else ""

    for row in facts["passed"]:
        share = "" if row["pass_rate"] is None else f" ({number(row['pass_rate'])})"
        count = "unknown" if row["passed"] is None else f"{row['passed']} of"
        rule = "" if row["meaning"] == row["title"] else f"; {plain(row['meaning'])}"
        _line(plain(row["title"]), f"{count} {counted(row['scored'], 'training rollout')}{share}{rule}{place(row)}")
    _line("on disk", ", ".join(f"{name} {size(count)}" for name, count in sizes.items()))
    _line("files", f"{facts['files']} ({', '.join(f'{name} {count}' for name, count in rows.items()) or 'no'} rows)")
    unread = f"; {facts['unreadable_journals']} cannot be read" if facts["unreadable_journals"] else ""
    _line("undrained", f"{size(facts['undrained_bytes'])} in {counted(facts['journal_files'], 'journal file')}{unread}")
    for host in facts["undrained_elsewhere"]:
        files = "some" if host["files"] is None else counted(host["files"], "journal file")
        _line("", f"{files} on {plain(host['host'])}, in {plain(host['folder'])}, {ago(host['time_ns'])}")
    at_work = {
        True: "at work on this host",
        False: "none at work on this host",
        None: "unknown: its lock cannot be read",
    }
    _line("drainer", at_work[facts["drainer_running"]])
    for report in sending:
        _line(f"to {plain(report.backend)}", plain(report.in_words()))
    _line("lost", ", ".join(f"{plain(reason)} {count}" for reason, count in losses.items()) or "nothing")
    for row in facts["flags"]:
        flags = ", ".join(f"{plain(flag)} {count}" for flag, count in row["trajectories"].items())
        _line("flags", f"{flags}{place(row)}")
    if facts["damaged_files"]:
        _line("damaged", f"{counted(len(facts['damaged_files']), 'file')}: rolltrace doctor")
    return 0


def _line(label: str, value: Any) -> None:
    print(f"  {label:<13} {value}")


def _gather(store: Path, options: Options) -> tuple[dict[str, Any], list[Report]]:
    from rolltrace.drain import find_waiting
    from rolltrace.keeper import reports
    from rolltrace.query import open_store

    asked = open_store(store)
    experiments = asked.experiments().rows()
    losses: Counter[str] = Counter()
    for row in asked.losses():
        losses[row["reason"]] += row["count"]
    stored = asked.stored()
    journals = journal_files(store)
    sending = reports(asked)
    facts = {
        "store": address_in(store).url,
        "trajectories": sum(row["trajectories"] for row in experiments),
        "running": sum(row["running"] for row in experiments),
        "experiments": len(experiments),
        "passed": _passed(asked, options),
        "bytes": {
            "data": _table_bytes(store, images=False),
            "journal": disk_bytes({*(store / "journal").rglob("*"), *journal_folder(store).glob("*")}),
            "blobs": _table_bytes(store, images=True),
        },
        "files": stored.files,
        "rows": stored.rows,
        "journal_files": len(journals),
        "unreadable_journals": sum(each.kind == "journal" for each in asked.incomplete.missing),
        "undrained_bytes": sum(find_waiting(store).values()),
        "undrained_elsewhere": [
            {"host": host, "folder": each.folder, "files": each.files, "bytes": each.bytes, "time_ns": each.time_ns}
            for host, each in undrained_elsewhere(store)
        ],
        "drainer_running": drainer_is_running(store),
        "backends": [msgspec.structs.asdict(report) for report in sending],
        "losses": dict(losses),
        "flags": _flags(asked),
        "damaged_files": [str(path) for path in stored.damaged],
    }
    return facts, sending


def _passed(asked: Store, options: Options) -> list[dict[str, Any]]:
    """How many training rollouts of each experiment passed, of those that have a reward."""
    meanings = {(each.project, each.experiment): each for each in read_passing(options, asked).meanings}
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in asked.steps(**options.rule):
        if not row["validate"] and row["scored"]:
            rows.setdefault((row["project"], row["experiment"]), []).append(row)
    facts = []
    for key, steps in rows.items():
        scored = sum(step["scored"] for step in steps)
        known = [step["passed"] for step in steps if step["passed"] is not None]
        passed = sum(known) if known else None
        facts.append({
            "project": key[0], "experiment": key[1], "passed": passed, "scored": scored,
            "pass_rate": None if passed is None else passed / scored, "pass_rule": meanings[key].rule.text,
            "title": meanings[key].title, "meaning": meanings[key].text,
        })  # fmt: skip
    return facts


def _flags(asked: Store) -> list[dict[str, Any]]:
    """How many trajectories of each experiment have which flag, the most frequent first."""
    experiments: dict[tuple[str, str], dict[str, int]] = {}
    for row in asked.sql(
        "SELECT project, experiment, flag, count(DISTINCT trajectory_id) AS count FROM flags "
        "GROUP BY ALL ORDER BY project, experiment, count DESC, flag"
    ):
        experiments.setdefault((row["project"], row["experiment"]), {})[row["flag"]] = row["count"]
    return [
        {"project": project, "experiment": experiment, "trajectories": flags}
        for (project, experiment), flags in experiments.items()
    ]


def _table_bytes(store: Path, *, images: bool) -> int:
    """What the tables take, or that of images alone; in a folder also files that no table has any more."""
    from rolltrace.tables import TABLE_SCHEMAS, TableStore

    address = address_in(store)
    names = [schema.name for schema in TABLE_SCHEMAS if (schema.name == "blobs") is images]
    if address.folder is not None:
        return sum(disk_bytes((address.folder / name).rglob("*")) for name in names)
    tables = TableStore(address)
    return sum(file.size_bytes for name in names for file in tables.files(name))


def disk_bytes(paths: Iterable[Path]) -> int:
    """What the files take on disk; one that vanishes meanwhile takes nothing."""
    total = 0
    for path in paths:
        try:
            if not path.is_dir():
                total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total
