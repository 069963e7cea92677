"""`rolltrace ls`: which trajectories, steps or experiments a store has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import ago, counted
from rolltrace.cli.command import command, one_of, option
from rolltrace.cli.options import FILTERS, JSON, PASS, STORE, Options, order, read_count, tell_of_older_runs
from rolltrace.cli.output import (
    SHORT_ID,
    Column,
    differing_places,
    field,
    mark_validation,
    print_footer,
    print_rows,
    print_table,
    working,
)  # fmt: skip
from rolltrace.cli.passing import Passing, read_passing
from rolltrace.cli.trajectory_table import chosen_columns, chosen_fields, fields_of, usual_columns, with_asked

if TYPE_CHECKING:
    from rolltrace.query import Store

Row = dict[str, Any]
_SHOWN_ROWS = 100
_ALL_ROWS = 2**40
_EXAMPLES = """examples:
  rolltrace ls --step 12 --where "reward < 0.5 and tool = 'search'"
  rolltrace ls --sample 3 --order -reward --limit 5   the best of a sample
  rolltrace ls --last 20                              the newest
  rolltrace ls --columns id,reward,tag.difficulty
  rolltrace ls --steps                                rewards per step
  rolltrace ls --json | jq .trajectory_id

Names above the columns are understood in --where, --order and --columns.
filters: rolltrace docs filter"""


@command(
    "list trajectories, steps or experiments",
    "One line per trajectory, those still in journals included; the newest experiment and the newest rows come last.",
    STORE,
    one_of(option("--experiments", "one line per experiment"), option("--steps", "one line per step")),
    FILTERS,
    order("step,-reward"),
    PASS,
    option("--last N", "only the N newest; --order sorts these", type=read_count),
    option(
        "--limit N",
        f"at most N lines: the newest, or with --order the first (default: {_SHOWN_ROWS}; with --json all)",
        type=read_count,
    ),
    option("--offset N", "leave out the N newest lines; with --order, the first N", type=read_count, default=0),
    option("--columns NAMES", "show these, such as id,reward,tag.difficulty,term.format"),
    JSON,
    epilog=_EXAMPLES,
)
def ls(options: Options) -> int:
    wanted = options.filters
    if options.experiments or options.steps:
        usable = ("project", "experiment", "run", "all_runs", "validate") if options.steps else ()
        if options.experiments and (options.rule or options.save):
            options.usage_error("--experiments says nothing of what passed; --steps does")
        if options.order or options.columns or any(wanted[key] is not None for key in wanted if key not in usable):
            options.usage_error(
                "--steps takes only --project, --experiment, --run, --all-runs, --train and --validate, --experiments "
                "no filter, both no --order and --columns"
            )
    if options.columns is not None:
        fields_of(options.columns)  # a wrong name is told at once, and also where nothing is found
    store = options.open_store()
    if options.experiments:
        rows = _experiments(store, with_runs=not options.json)
        if not rows:
            options.tell_of_nothing(store.runs())
            return 0
        return _show(options, rows, _experiment_columns, "run" if any(row.get("run") for row in rows) else "experiment")
    if options.steps:
        passing = read_passing(options, store)
        steps = store.steps(project=options.project, experiment=options.experiment, **options.runs, **options.rule)
        tell_of_older_runs(steps.older_runs)
        if not len(steps):
            options.tell_of_nothing(steps)
            return 0
        rows = [row for row in steps.rows() if options.validate in (None, row["validate"])]
        return _show(options, rows, partial(_step_columns, passed=passing.title(rows)), "step", passing.facts(rows))
    return _trajectories(options, store, wanted)


def _trajectories(options: Options, store: Store, wanted: Row) -> int:
    most = _ALL_ROWS if options.json else _SHOWN_ROWS
    if options.order is None:
        last, limit = _newest(options, most), None
    else:
        last = options.last
        limit = most if last is None and options.limit is None else options.limit
    paging = {"order": options.order, "limit": limit, "offset": options.offset, "last": last}
    rule, names = options.rule, options.columns
    with working(f"reading {store.path}"):
        asked = _asked(options, wanted)
        passing = read_passing(options, store) if "passed" in asked or rule or options.save else Passing()
        listing = store.trajectories(**wanted, **paging, **rule)
        rows = listing.rows()
        total = len(rows) if options.json else listing.total
        if options.json:
            chosen = rows if names is None else chosen_fields(store, rows, names, **rule)
        elif rows:
            columns = usual_columns(rows) if names is None else chosen_columns(store, rows, names, **rule)
            columns = with_asked(store, rows, columns, asked, **rule)
    tell_of_older_runs(listing.older_runs)
    if not rows:
        options.tell_of_nothing(listing)
    elif options.json:
        print_rows(chosen)
    else:
        hidden = print_table(columns)
        print_footer(*_footer(rows, total, hidden, newest=options.order is None), *passing.rules(rows))
    return 0


def _newest(options: Options, otherwise: int) -> int:
    """How many of the newest lines are shown."""
    return min((each for each in (options.last, options.limit) if each is not None), default=otherwise)


def _asked(options: Options, wanted: Row) -> list[str]:
    """The fields that the rows were chosen or sorted by."""
    from rolltrace.query import TRAJECTORY_HEADERS, compile_where, sorted_by

    order = (
        [] if options.order is None else [TRAJECTORY_HEADERS.get(name, name) for name, _ in sorted_by(options.order)]
    )
    where = compile_where(options.where).fields
    columns = fields_of(options.columns) if options.columns is not None else []
    of_options = [name for name, value in wanted.items() if value is not None and name != "where"]
    passed = [name for name in columns if name == "passed"]
    return [*order, *where, *passed, *("run" if name == "all_runs" else name for name in of_options)]


def _footer(rows: list[Row], total: int, hidden_columns: int, *, newest: bool) -> Iterator[str]:
    if len(rows) < total:
        yield f"{'the newest ' * newest}{len(rows)} of {counted(total, 'trajectory')}"
        yield f"all: --limit {total}"
    else:
        yield counted(total, "trajectory")
    if hidden_columns:
        yield f"{counted(hidden_columns, 'more column')}: --columns or --json"
    yield f"one: rolltrace show {rows[0]['trajectory_id'][:SHORT_ID]}"


def _experiments(store: Store, *, with_runs: bool) -> list[Row]:
    """One row per experiment; for people, one per run where there are several."""
    rows = store.experiments().rows()
    runs = store.runs().rows() if any(row["runs"] > 1 for row in rows) else []

    def same(row: Row) -> list[Row]:
        return [run for run in runs if (run["project"], run["experiment"]) == (row["project"], row["experiment"])]

    if with_runs:
        return [each for row in rows for each in ((same(row) or [row]) if row["runs"] > 1 else [{**row, "run": None}])]
    return [{**row, "run_ids": [run["run"] for run in same(row)]} if row["runs"] > 1 else row for row in rows]


def _show(options: Options, rows: list[Row], columns: Any, what: str, facts: Sequence[str] = ()) -> int:
    total = len(rows)
    end = max(0, total - options.offset)
    rows = rows[max(0, end - _newest(options, total)) : end]
    if options.json:
        print_rows(rows)
    elif rows:
        hidden = print_table(columns(rows))
        print_footer(
            f"{counted(total, what)}{f', {len(rows)} shown' if len(rows) < total else ''}",
            f"{counted(hidden, 'more column')}: --json" if hidden else "",
            *facts,
        )
    else:
        print(f"no {what}s")
    return 0


def _experiment_columns(rows: list[Row]) -> list[Column]:
    has_runs = any(row.get("superseded") or row["run"] for row in rows)  # an experiment has several
    return [
        *(field(rows, key) for key in ("project", "experiment")),
        *([field(rows, "run")._replace(stretch=False), field(rows, "superseded")] if has_runs else []),
        *(field(rows, key, key.replace("_", " ")) for key in ("trajectories", "running", "steps", "last_step")),
        field(rows, "start_ns", "started", ago),
        field(rows, "end_ns", "last news", ago),
    ]


def _step_columns(rows: list[Row], passed: str) -> list[Column]:
    titles = {
        "trajectories": "trajectories", "samples": "samples", "errors": "errors", "running": "running",
        "reward_mean": "reward", "reward_min": "min", "reward_max": "max", "pass_rate": passed,
        "zero_variance_share": "flat groups", "turns_mean": "turns",
    }  # fmt: skip
    return [
        *(field(rows, key) for key in differing_places(rows)),
        field(rows, "step"),
        *mark_validation(rows),
        *(field(rows, key, title) for key, title in titles.items()),
        field(rows, "start_ns", "started", ago),
    ]
