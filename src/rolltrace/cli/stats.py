"""`rolltrace stats`: how large a store is and what is in it."""

from __future__ import annotations

import argparse
import mmap
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace.cli.output import add_json, add_store, ago, counted, json_line, plain, size, store_of, working
from rolltrace.journal import journal_files, journal_folder, lock_now

if TYPE_CHECKING:
    from rolltrace.query import Store


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "stats",
        help="sizes and counts",
        description="How much room a store takes, how many rows it has, what waits to be drained, what was lost, how "
        "many trajectories have which flag.",
        epilog="example: rolltrace stats --json | jq .bytes.data",
    )
    add_store(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    store = store_of(options)
    with working(f"reading {store}"):
        found = _gather(store)
    if options.json:
        print(json_line(found))
        return 0
    rows, taken, losses = found["rows"], found["bytes"], found["losses"]
    print(found["store"])
    _line("trajectories", f"{found['trajectories']}, {found['running']} running")
    _line("experiments", found["experiments"])
    _line("on disk", ", ".join(f"{name} {size(count)}" for name, count in taken.items()))
    _line("parts", f"{found['parts']} ({', '.join(f'{name} {count}' for name, count in rows.items()) or 'no'} rows)")
    unread = f"; {found['unreadable_journals']} cannot be read" if found["unreadable_journals"] else ""
    _line("undrained", f"{size(found['undrained_bytes'])} in {counted(found['journal_files'], 'journal file')}{unread}")
    at_work = {
        True: "at work on this host",
        False: "none at work on this host",
        None: "unknown: its lock cannot be read",
    }
    _line("drainer", at_work[found["drainer_running"]])
    for report in found["backends"]:
        _line(f"to {plain(report['backend'])}", describe(report))
    _line("lost", ", ".join(f"{plain(reason)} {count}" for reason, count in losses.items()) or "nothing")
    for row in found["flags"]:
        where = f"  ({plain(row['project'])} / {plain(row['experiment'])})" if found["experiments"] > 1 else ""
        flags = ", ".join(f"{plain(flag)} {count}" for flag, count in row["trajectories"].items())
        _line("flags", f"{flags}{where}")
    if found["damaged_parts"]:
        _line("damaged", f"{counted(len(found['damaged_parts']), 'part')}: rolltrace doctor")
    return 0


def describe(report: dict[str, Any]) -> str:
    """How sending to one backend goes, in a line."""
    counts = [f"{report[name]} {name.replace('_', ' ')}" for name in ("sent", "pending", "refused", "held_back")]
    if report["stopped"]:
        counts.append(f"stopped: {report['stopped']}")
    elif report["last_error"] and report["pending"]:
        counts.append(f"{ago(report['last_error_ns'])}: {report['last_error']}")
    return plain(", ".join(counts))


def _line(label: str, value: Any) -> None:
    print(f"  {label:<13} {value}")


def _gather(store: Path) -> dict[str, Any]:
    from rolltrace.keeper.report import reports
    from rolltrace.query import open_store

    asked = open_store(store)
    experiments = asked.experiments().rows()
    losses: Counter[str] = Counter()
    for row in asked.losses():
        losses[row["reason"]] += row["count"]
    parts = asked.parts()
    journals = journal_files(store)
    return {
        "store": str(store),
        "trajectories": sum(row["trajectories"] for row in experiments),
        "running": sum(row["running"] for row in experiments),
        "experiments": len(experiments),
        "bytes": {name: disk_bytes((store / name).rglob("*")) for name in ("data", "journal", "blobs")},
        "parts": parts.parts,
        "rows": parts.rows,
        "journal_files": len(journals),
        "unreadable_journals": sum(each.kind == "journal" for each in asked.incomplete.missing),
        "undrained_bytes": sum(map(undrained_bytes, journals)),
        "drainer_running": drainer_is_running(store),
        "backends": [report._asdict() for report in reports(asked)],
        "losses": dict(losses),
        "flags": _flags(asked),
        "damaged_parts": [str(part) for part in parts.damaged],
    }


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


def undrained_bytes(path: Path) -> int:
    """What the records of a journal file take. Its size says more: room is reserved ahead."""
    from rolltrace.journal.segment import FRAME, FRAME_MAGIC, HEADER_BYTES

    offset = HEADER_BYTES
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            while offset + FRAME.size <= len(data):
                magic, _, length = FRAME.unpack_from(data, offset)
                if magic != FRAME_MAGIC or not length:
                    break
                offset = (offset + FRAME.size + length + 7) & ~7
    except (OSError, ValueError):  # gone, not readable, empty
        pass
    return offset - HEADER_BYTES


def drainer_is_running(store: Path) -> bool | None:
    """Whether a drainer of this host is at work; None if we may not know. Looking makes no files."""
    lock = journal_folder(store) / "drainer.lock"
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    try:
        return not lock_now(fd, lock)
    except OSError:  # some file systems lock only what can be written
        return None
    finally:
        os.close(fd)
