"""`rolltrace live`: what runs right now, and what finishes."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._address import address_in
from rolltrace._amounts import counted, duration, number
from rolltrace.cli.command import command, one_of, option, section
from rolltrace.cli.options import FILTERS, JSON, RULE, STORE, Options, read_count
from rolltrace.cli.output import (
    SHORT_ID,
    Column,
    cut,
    field,
    field_text,
    paint,
    paint_status,
    plain,
    print_rows,
    print_table,
    screen_width,
    warn,
    working,
)  # fmt: skip

if TYPE_CHECKING:
    from rolltrace.query import Pulse, Store

_EVERY_SEC = 1.0
_STALE_SEC = 10.0
"""A drainer that has not looked for so long is at a standstill, or gone."""
_TO_TOP = "\x1b[H\x1b[J"
_FIRST = 10
_EXAMPLES = """examples:
  rolltrace live --watch
  rolltrace live --finished      the last 10, then each as it finishes
  rolltrace live --finished --where "status = 'error'" -n 0
  rolltrace live --finished --once -n 100 --json"""


@command(
    "what runs right now, or what finishes",
    "Trajectories that are running now: since when, in which op, in which process. The oldest comes first. One is slow "
    "when its op, or the time since its last op, takes longer than 95 of 100 do, and hung when it takes ten times as "
    "long and more than five seconds. With --finished, one line per trajectory that has ended, the newest last, and "
    "then each as it finishes; a line is not printed again when a reward is given later.",
    STORE,
    FILTERS,
    RULE,
    one_of(
        option("--watch", "refresh every second, until Ctrl-C"),
        option("--finished", "those that have ended, and each that ends, until Ctrl-C"),
    ),
    section(
        "with --finished",
        option("-n N", f"print N finished ones first (default: {_FIRST})", type=read_count, default=_FIRST),
        option("--once", "print those, and stop"),
    ),
    JSON,
    epilog=_EXAMPLES,
)
def live(options: Options) -> int:
    if options.finished:
        return _follow(options)
    from rolltrace.query import pulse_of

    store = options.open_store()
    chosen = {name: value for name, value in options.filters.items() if value is not None}
    while True:
        with working(f"reading {store.path}"):
            pulse = pulse_of(store)
            if chosen:
                ids = {row["trajectory_id"] for row in store.trajectories(**chosen, **options.rule)}
                pulse = replace(pulse, rows=[row for row in pulse.rows if row["trajectory_id"] in ids])
        if options.watch and not options.json and sys.stdout.isatty():
            print(_TO_TOP, end="")
        if options.json:
            print_rows(pulse.rows)
        else:
            _print_running(pulse, store.path)
        if not options.watch:
            return 0
        sys.stdout.flush()
        time.sleep(_EVERY_SEC)


def _print_running(pulse: Pulse, store: Path) -> None:
    rows = pulse.rows
    if not rows:
        print(f"nothing is running in the store {plain(repr(address_in(store).url))}")
        return
    print_table(
        [
            Column("id", [row["trajectory_id"][:SHORT_ID] for row in rows]),
            field(rows, "age_s", "age", duration),
            field(rows, "current_op", "current op"),
            field(rows, "op_age_s", "since", duration),
            field(rows, "idle_s", "idle", duration),
            Column("pace", ["hung?" if row["pace"] == "hung" else row["pace"] for row in rows]),
            field(rows, "step"),
            field(rows, "sample_index", "sample"),
            field(rows, "rollout_n", "n"),
            field(rows, "turns"),
            field(rows, "tool_calls", "tools"),
            *(field(rows, key) for key in ("worker", "name", "experiment")),
        ]
    )
    age_s = pulse.snapshot_age_s
    stale = "" if age_s is None or age_s < _STALE_SEC else f", as of {duration(age_s)} ago"
    print(paint(f"{counted(len(rows), 'running trajectory')}{stale}", "dim"))


def _follow(options: Options) -> int:
    # Whoever follows may wait for an experiment that is about to begin.
    store = options.open_store(check_names=options.once)
    conditions = {**options.filters, **options.rule}
    printed_ids: set[str] = set()
    with working(f"reading {store.path}"):
        past = _finished(store, conditions, printed_ids)
    if not past and not len(everything := store.trajectories(**conditions)):
        warn(plain(everything.why_empty()))  # and not among the trajectories
    _print_finished(past[len(past) - min(options.n, len(past)) :], options)
    while not options.once:
        begun = time.monotonic()
        _print_finished(_finished(store, conditions, printed_ids), options)
        # A store that answers slowly is asked less often.
        time.sleep(max(_EVERY_SEC, 4 * (time.monotonic() - begun)))
    return 0


def _finished(store: Store, wanted: dict[str, Any], printed_ids: set[str]) -> list[dict[str, Any]]:
    """Those that have ended and were not seen before, in the order in which they ended."""
    finished = store.trajectories(**wanted)
    ids, states = (finished.arrow()[name].to_pylist() for name in ("trajectory_id", "status"))
    if not any(state != "running" and name not in printed_ids for name, state in zip(ids, states)):
        return []
    fresh = [row for row in finished.rows() if row["status"] != "running" and row["trajectory_id"] not in printed_ids]
    printed_ids.update(row["trajectory_id"] for row in fresh)
    return sorted(fresh, key=lambda row: row["end_ns"] or row["start_ns"])


def _print_finished(rows: list[dict[str, Any]], options: Options) -> None:
    for row in rows:
        options.report(row, _line(row))
    sys.stdout.flush()


def _line(row: dict[str, Any]) -> str:
    """Columns of fixed width, because nobody knows what comes next."""
    ended = time.strftime("%H:%M:%S", time.localtime((row["end_ns"] or row["start_ns"]) / 1e9))
    rollout = "" if row["rollout_n"] is None else f" rollout {row['rollout_n']}"
    step, sample = (field_text(row[name]) or "-" for name in ("step", "sample_index"))
    place = f"step {step} sample {sample}{rollout}{' val' * bool(row['validate'])}"
    facts = f"{duration(row['duration_s']):>6}  {row['turns']:>2} turns {row['tool_calls']:>3} tools"
    status = f"{plain(row['status']):<11}"
    reward = f"reward {number(row['reward']):<7}" if row["reward"] is not None else " " * 14
    name = f"{plain(row['name'])}  {plain(row['error'] or '')}".rstrip()
    before = f"{ended}  {plain(row['trajectory_id'][:SHORT_ID])}  "
    after = cut(f"  {place:<26}  {reward}  {facts}  {name}", max(40, screen_width() - len(before) - len(status)))
    return f"{paint(before, 'dim')}{paint(status, paint_status(status))}{after}".rstrip()
