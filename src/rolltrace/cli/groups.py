"""`rolltrace groups`: all rollouts of each sample in each step together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rolltrace._amounts import counted, duration
from rolltrace.cli.command import command, option
from rolltrace.cli.options import FILTERS, JSON, PASS, STORE, Options, order, read_count, tell_of_older_runs
from rolltrace.cli.output import (
    Column,
    differing_places,
    field,
    mark_validation,
    plain,
    print_footer,
    print_rows,
    print_table,
    working,
)
from rolltrace.cli.passing import read_passing

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

Row = dict[str, Any]
_SHOWN_ROWS = 100
_EXAMPLES = """examples:
  rolltrace groups --step 12
  rolltrace groups --where "group.zero_variance = true"  no signal for GRPO
  rolltrace groups --order -std --limit 10               those that differ most
  rolltrace groups --validate --k 1,4,8 --threshold 0.5  pass@k
  rolltrace groups --term correct --save                 what pass means

filters: rolltrace docs filter
one group: rolltrace diff --step N --sample S"""


def _read_sizes(context: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    numbers = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() and int(each) > 0 for each in numbers):
        raise click.BadParameter(f"takes numbers of rollouts, such as 1,4,8; not {text!r}", context, param)
    return [int(each) for each in numbers]


@command(
    "list groups: all rollouts of a sample in a step",
    "One line per group: rewards, pass rate, lengths, flags and errors. "
    "'=' marks a group in which all rewards are the same.",
    STORE,
    FILTERS,
    order("step,-std"),
    option(
        "--limit N",
        f"at most N lines: the last, or with --order the first (default: {_SHOWN_ROWS}; with --json all)",
        type=read_count,
    ),
    PASS,
    option("--k K,...", "add a pass@k column for each of these", callback=_read_sizes),
    JSON,
    epilog=_EXAMPLES,
)
def groups(options: Options) -> int:
    wanted = options.filters
    if wanted.pop("rollout_n") is not None:
        options.usage_error("a group is all rollouts of a sample; for one of them: rolltrace ls --rollout")
    store = options.open_store()
    with working(f"reading {store.path}"):
        passing = read_passing(options, store)
        answer = store.groups(**wanted, order=options.order, k=options.k, **options.rule)
    tell_of_older_runs(answer.older_runs)
    if not len(answer):
        options.tell_of_nothing(answer)
        return 0
    newest = options.order is None
    most = options.limit if options.limit is not None else len(answer) if options.json else _SHOWN_ROWS
    first = max(0, len(answer) - most) if newest else 0
    rows = answer[first : first + most]
    if options.json:
        print_rows(rows)
        return 0
    if not rows:
        print_footer(f"0 of {counted(len(answer), 'group')}")
        return 0
    title = passing.title(rows)
    hidden = print_table(_marked(_columns(rows, title), options, title))
    total, cut_short = counted(len(answer), "group"), len(rows) < len(answer)
    print_footer(
        f"{'the last ' * newest}{len(rows)} of {total}" if cut_short else total,
        f"all: --limit {len(answer)}" if cut_short else "",
        f"{counted(hidden, 'more column')}: --json" if hidden else "",
        *passing.facts(rows),
    )
    if wanted["step"] is not None and wanted["sample_index"] is not None:
        wanted.pop("where")
        _print_records(store.group_records(**wanted))
    return 0


def _print_records(records: Sequence[Trajectory]) -> None:
    """What was recorded for the whole group: comparisons, group rewards."""
    for record in records:
        ops = counted(sum(1 for _ in record.walk()), "op")
        place = f"{record.trajectory_id[:8]}  {plain(record.name)}  {plain(record.status)}  {ops}"
        print(f"group record {place}; look: rolltrace show {record.trajectory_id[:8]}")


def _columns(rows: list[Row], passed: str) -> list[Column]:
    """What a person wants to see of groups, the most important first."""

    columns = [
        *(field(rows, key) for key in differing_places(rows)),
        field(rows, "step"),
        field(rows, "sample_index", "sample"),
        *mark_validation(rows),
        field(rows, "size", "n"),
        Column("", ["=" if row["zero_variance"] else "" for row in rows], colour=lambda cell: "yellow"),
        *(field(rows, key) for key in ("mean", "std", "min", "max")),
        Column(passed, [_passed(row) for row in rows], right=True),
        *(field(rows, key, key.replace("pass", passed)) for key in rows[0] if key.startswith("pass@")),
        Column("tokens", [_range(row) for row in rows], right=True),
        field(rows, "turns_mean", "turns"),
        field(rows, "duration_s_max", "slowest", duration),
    ]
    if any(row["errors"] for row in rows):
        columns.append(field(rows, "errors", cell=lambda count: str(count or "")))
    if any(row["flags"] for row in rows):
        columns.append(Column("flags", [plain(", ".join(row["flags"])) for row in rows], stretch=True))
    return columns


def _marked(columns: list[Column], options: Options, passed: str) -> list[Column]:
    """The columns, those that were filtered or sorted by marked to stay on any screen."""
    from rolltrace.query import GROUP_FILTER_HEADERS, GROUP_HEADERS, compile_where, sorted_by

    asked = set() if options.order is None else {GROUP_HEADERS.get(name, name) for name, _ in sorted_by(options.order)}
    asked |= {name.removeprefix("group.") for name in compile_where(options.where, GROUP_FILTER_HEADERS).fields}
    names = {**GROUP_HEADERS, passed: GROUP_HEADERS["pass"]}
    return [column._replace(keep=names.get(column.title, column.title) in asked) for column in columns]


def _passed(row: Row) -> str:
    """3/8; nothing where the rule says nothing about these rewards."""
    return "" if row["passed"] is None else f"{row['passed']}/{row['scored']}"


def _range(row: Row) -> str:
    """Response lengths: 120 (80-160)."""
    if row["response_tokens_mean"] is None:
        return ""
    least, most = row["response_tokens_min"], row["response_tokens_max"]
    return str(least) if least == most else f"{row['response_tokens_mean']:.0f} ({least}-{most})"
