"""`rolltrace ls`: which trajectories, steps or experiments a store has."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rolltrace.cli.output import (
    SHORT_ID,
    Column,
    add_filters,
    add_json,
    add_store,
    ago,
    counted,
    duration,
    filters_of,
    number,
    paint,
    paint_status,
    plain,
    print_rows,
    print_table,
    store_of,
)

if TYPE_CHECKING:
    from rolltrace.query import Store

Row = dict[str, Any]
_SHOWN_ROWS = 100
_EXAMPLES = """examples:
  rolltrace ls --step 12 --where "reward < 0.5 and tool = 'search'"
  rolltrace ls --sample 3 --order=-reward --limit 5     the best rollouts of a sample (mind the = before -)
  rolltrace ls --steps                                  rewards per step
  rolltrace ls --json | jq .trajectory_id

filters: docs/reference/filter.md"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "ls",
        help="list trajectories, steps or experiments",
        description="One line per trajectory, those still in journals included.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_store(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--experiments", action="store_true", help="one line per experiment")
    what.add_argument("--steps", action="store_true", help="one line per step")
    add_filters(parser)
    parser.add_argument("--order", metavar="COLUMNS", help="sort by these, such as step,-reward (- turns one around)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"how many lines (default: {_SHOWN_ROWS}; with --json all)"
    )
    add_json(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    if options.limit is not None and options.limit < 0:
        options.usage_error("--limit must be 0 or more")
    wanted = filters_of(options)
    if options.experiments or options.steps:
        usable = ("project", "experiment") if options.steps else ()
        if options.order or any(value is not None for key, value in wanted.items() if key not in usable):
            options.usage_error("--steps takes only --project and --experiment, --experiments no filter")
    from rolltrace.query import open_store

    store = open_store(store_of(options))
    if options.experiments:
        return _show(options, store.experiments().rows(), _experiment_columns, "experiment")
    if options.steps:
        rows = store.steps(project=options.project, experiment=options.experiment).rows()
        return _show(options, rows, _step_columns, "step")
    return _trajectories(options, store, wanted)


def _trajectories(options: argparse.Namespace, store: Store, wanted: Row) -> int:
    if options.json:
        print_rows(map(with_tags, store.trajectories(**wanted, order=options.order, limit=options.limit)))
        return 0
    from rolltrace.query import Result

    found = store.trajectories(**wanted, order=options.order).arrow()
    rows = Result(found.slice(0, _SHOWN_ROWS if options.limit is None else options.limit)).rows()
    if rows:
        hidden = print_table(trajectory_columns(rows))
        print(paint(_footer(rows, len(found), hidden), "dim"))
    else:
        print(f"no trajectories{'' if all(value is None for value in wanted.values()) else ' meet the filter'}")
    return 0


def _footer(rows: list[Row], total: int, hidden_columns: int) -> str:
    text = counted(total, "trajectory")
    if len(rows) < total:
        text = f"{len(rows)} of {text}; all: --limit {total}"
    if hidden_columns:
        text += f"; {counted(hidden_columns, 'more column')}: --json, or a wider terminal"
    return f"{text}; one: rolltrace show {rows[0]['trajectory_id'][:SHORT_ID]}"


def with_tags(row: Row) -> Row:
    """A row of `trajectories` with its tags as an object, not as JSON text."""
    return {**row, "tags": None if row["tags"] is None else json.loads(row["tags"])}


def trajectory_columns(rows: list[Row]) -> list[Column]:
    """What a person wants to see of trajectories, the most important first."""

    def texts(key: str) -> list[str]:
        return ["" if row[key] is None else plain(row[key]) for row in rows]

    columns = [
        Column("id", [row["trajectory_id"][:SHORT_ID] for row in rows]),
        Column("step", texts("step"), right=True),
        Column("sample", texts("sample_index"), stretch=True),
        Column("n", texts("rollout_n"), right=True),
        Column("status", texts("status"), colour=paint_status),
        Column("reward", [number(row["reward"]) for row in rows], right=True),
        *_scores(rows),
        Column("turns", texts("turns"), right=True),
        Column("tools", [_tools(row) for row in rows], right=True),
        Column("tokens", texts("response_tokens"), right=True),
        Column("took", [duration(row["duration_s"]) for row in rows], right=True),
        Column("started", [ago(row["start_ns"]) for row in rows], right=True),
        Column("name", texts("name"), stretch=True),
    ]
    if any(row["validate"] for row in rows):
        columns.insert(4, Column("val", ["yes" if row["validate"] else "" for row in rows]))
    for key in ("experiment", "project"):
        if len({row[key] for row in rows}) > 1:
            columns.insert(1, Column(key, texts(key), stretch=True))
    if any(row["flags"] for row in rows):
        columns.append(Column("flags", [plain(", ".join(row["flags"] or ())) for row in rows], stretch=True))
    if any(row["error"] for row in rows):
        columns.append(Column("error", texts("error"), stretch=True))
    return columns


def _scores(rows: list[Row]) -> Iterator[Column]:
    """What training made of them, where it said so."""
    if any(row["advantage"] is not None for row in rows):
        yield Column("advantage", [number(row["advantage"]) for row in rows], right=True)
    if any(row["fate"] is not None for row in rows):
        yield Column("fate", ["" if row["fate"] is None else plain(row["fate"]) for row in rows], stretch=True)


def _tools(row: Row) -> str:
    return f"{row['tool_calls']} ({row['tool_errors']} bad)" if row["tool_errors"] else str(row["tool_calls"])


def _show(options: argparse.Namespace, rows: list[Row], columns: Any, what: str) -> int:
    total = len(rows)
    if options.limit is not None:
        rows = rows[: options.limit]
    if options.json:
        print_rows(rows)
    elif rows:
        print_table(columns(rows))
        print(paint(f"{counted(total, what)}{f', {len(rows)} shown' if len(rows) < total else ''}", "dim"))
    else:
        print(f"no {what}s")
    return 0


def _experiment_columns(rows: list[Row]) -> list[Column]:
    return [
        Column("project", [plain(row["project"]) for row in rows], stretch=True),
        Column("experiment", [plain(row["experiment"]) for row in rows], stretch=True),
        *(_numbers(rows, key, key.replace("_", " ")) for key in ("trajectories", "running", "steps", "last_step")),
        Column("started", [ago(row["start_ns"]) for row in rows], right=True),
        Column("last news", [ago(row["end_ns"]) for row in rows], right=True),
    ]


def _step_columns(rows: list[Row]) -> list[Column]:
    columns = [_numbers(rows, "step", "step")]
    if any(row["validate"] for row in rows):
        columns.append(Column("val", ["yes" if row["validate"] else "" for row in rows]))
    for key in ("experiment", "project"):
        if len({row[key] for row in rows}) > 1:
            columns.insert(0, Column(key, [plain(row[key]) for row in rows], stretch=True))
    titles = {
        "trajectories": "trajectories", "samples": "samples", "errors": "errors", "running": "running",
        "reward_mean": "reward", "reward_min": "min", "reward_max": "max", "pass_rate": "pass",
        "zero_variance_share": "flat groups", "turns_mean": "turns",
    }  # fmt: skip
    columns += [_numbers(rows, key, title) for key, title in titles.items()]
    columns.append(Column("started", [ago(row["start_ns"]) for row in rows], right=True))
    return columns


def _numbers(rows: list[Row], key: str, title: str) -> Column:
    return Column(title, [number(row[key]) for row in rows], right=True)
