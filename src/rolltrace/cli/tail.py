"""`rolltrace tail`: print trajectories as they finish."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import duration, number
from rolltrace.cli.options import add_filters, add_json, add_store, filters_of, open_asked, store_of, tell_of_nothing
from rolltrace.cli.output import SHORT_ID, cut, json_line, paint, paint_status, plain, screen_width, working

if TYPE_CHECKING:
    from rolltrace.query import Store

_EVERY_SEC = 1.0
_FIRST = 10
_EXAMPLES = """examples:
  rolltrace tail                 the last 10, then each as it finishes
  rolltrace tail --where "status = 'error'" -n 0
  rolltrace tail --once -n 100 --json"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "tail",
        help="print trajectories as they finish",
        description="One line per trajectory that has ended, the newest last. A line is not printed again when a "
        "reward is given later.",
        epilog=_EXAMPLES,
    )
    add_store(parser)
    add_filters(parser)
    parser.add_argument(
        "-n", type=int, default=_FIRST, metavar="N", help=f"print N finished ones first (default: {_FIRST})"
    )
    follow = parser.add_mutually_exclusive_group()
    follow.add_argument("-f", "--follow", action="store_true", default=True, help="continue until Ctrl-C (the default)")
    follow.add_argument("--once", dest="follow", action="store_false", help="print those, and stop")
    add_json(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    if options.n < 0:
        options.usage_error("-n must be 0 or more")
    from rolltrace.query import open_store

    # Whoever follows may wait for an experiment that is about to begin.
    store = open_store(store_of(options)) if options.follow else open_asked(options)
    wanted = filters_of(options)
    printed_ids: set[str] = set()
    with working(f"reading {store.path}"):
        past = _finished(store, wanted, printed_ids)
    if not past and not len(everything := store.trajectories(**wanted)):
        tell_of_nothing(everything, as_json=True)  # and not among the trajectories
    _print(past[len(past) - min(options.n, len(past)) :], options.json)
    while options.follow:
        begun = time.monotonic()
        _print(_finished(store, wanted, printed_ids), options.json)
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


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    for row in rows:
        print(json_line(row) if as_json else _line(row))
    sys.stdout.flush()


def _line(row: dict[str, Any]) -> str:
    """Columns of fixed width, because nobody knows what comes next."""
    ended = time.strftime("%H:%M:%S", time.localtime((row["end_ns"] or row["start_ns"]) / 1e9))
    rollout = "" if row["rollout_n"] is None else f" rollout {row['rollout_n']}"
    place = f"step {_text(row['step'])} sample {_text(row['sample_index'])}{rollout}{' val' * bool(row['validate'])}"
    facts = f"{duration(row['duration_s']):>6}  {row['turns']:>2} turns {row['tool_calls']:>3} tools"
    status = f"{plain(row['status']):<11}"
    reward = f"reward {number(row['reward']):<7}" if row["reward"] is not None else " " * 14
    name = f"{plain(row['name'])}  {plain(row['error'] or '')}".rstrip()
    before = f"{ended}  {plain(row['trajectory_id'][:SHORT_ID])}  "
    after = cut(f"  {place:<26}  {reward}  {facts}  {name}", max(40, screen_width() - len(before) - len(status)))
    return f"{paint(before, 'dim')}{paint(status, paint_status(status))}{after}".rstrip()


def _text(value: Any) -> str:
    return "-" if value is None else plain(value)
