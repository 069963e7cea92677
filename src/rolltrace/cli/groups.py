"""`rolltrace groups`: all rollouts of each sample in each step together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, duration, number
from rolltrace.cli.options import (
    add_filters,
    add_json,
    add_order,
    add_pass,
    add_store,
    count,
    filters_of,
    open_asked,
    pass_meanings,
    pass_of,
    pass_words,
    tell_of_nothing,
    tell_of_older_runs,
)
from rolltrace.cli.output import Column, differing_places, plain, print_footer, print_rows, print_table, working

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


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "groups",
        help="list groups: all rollouts of a sample in a step",
        description="One line per group: rewards, pass rate, lengths, flags and errors. "
        "'=' marks a group in which all rewards are the same.",
        epilog=_EXAMPLES,
    )
    add_store(parser)
    add_filters(parser)
    add_order(parser, "step,-std")
    parser.add_argument(
        "--limit",
        type=count,
        metavar="N",
        help=f"at most N lines: the last, or with --order the first (default: {_SHOWN_ROWS}; with --json all)",
    )
    add_pass(parser)
    parser.add_argument("--k", type=_rollout_counts, metavar="K,...", help="add a pass@k column for each of these")
    add_json(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def _rollout_counts(text: str) -> list[int]:
    numbers = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() and int(each) > 0 for each in numbers):
        raise argparse.ArgumentTypeError(f"takes numbers of rollouts, such as 1,4,8; not {text!r}")
    return [int(each) for each in numbers]


def run(options: argparse.Namespace) -> int:
    wanted = filters_of(options)
    if wanted.pop("rollout_n") is not None:
        options.usage_error("a group is all rollouts of a sample; for one of them: rolltrace ls --rollout")
    store = open_asked(options)
    with working(f"reading {store.path}"):
        meanings = pass_meanings(options, store)
        groups = store.groups(
            **wanted, order=options.order, k=options.k, **pass_of(options),
        )  # fmt: skip
    tell_of_older_runs(groups.older_runs)
    if not len(groups):
        tell_of_nothing(groups, as_json=options.json)
        return 0
    newest = options.order is None
    most = options.limit if options.limit is not None else len(groups) if options.json else _SHOWN_ROWS
    first = max(0, len(groups) - most) if newest else 0
    rows = groups[first : first + most]
    if options.json:
        print_rows(rows)
        return 0
    if not rows:
        print_footer(f"0 of {counted(len(groups), 'group')}")
        return 0
    words = pass_words(meanings, rows)
    hidden = print_table(_marked(_columns(rows, words.title), options, words.title))
    total, cut_short = counted(len(groups), "group"), len(rows) < len(groups)
    print_footer(
        f"{'the last ' * newest}{len(rows)} of {total}" if cut_short else total,
        f"all: --limit {len(groups)}" if cut_short else "",
        f"{counted(hidden, 'more column')}: --json" if hidden else "",
        *words.facts,
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

    def texts(key: str) -> list[str]:
        return ["" if row[key] is None else plain(row[key]) for row in rows]

    def numbers(key: str, title: str) -> Column:
        return Column(title, [number(row[key]) for row in rows], right=True)

    columns = [
        Column("step", texts("step"), right=True),
        Column("sample", texts("sample_index"), stretch=True),
        Column("n", texts("size"), right=True),
        Column("", ["=" if row["zero_variance"] else "" for row in rows], colour=lambda cell: "yellow"),
        *(numbers(key, key) for key in ("mean", "std", "min", "max")),
        Column(passed, [_passed(row) for row in rows], right=True),
        *(numbers(key, key.replace("pass", passed)) for key in rows[0] if key.startswith("pass@")),
        Column("tokens", [_range(row) for row in rows], right=True),
        numbers("turns_mean", "turns"),
        Column("slowest", [duration(row["duration_s_max"]) for row in rows], right=True),
    ]
    if any(row["validate"] for row in rows):
        columns.insert(2, Column("val", ["yes" if row["validate"] else "" for row in rows]))
    columns[:0] = [Column(key, texts(key), stretch=True) for key in differing_places(rows)]
    if any(row["errors"] for row in rows):
        columns.append(Column("errors", ["" if not row["errors"] else str(row["errors"]) for row in rows], right=True))
    if any(row["flags"] for row in rows):
        columns.append(Column("flags", [plain(", ".join(row["flags"])) for row in rows], stretch=True))
    return columns


def _marked(columns: list[Column], options: argparse.Namespace, passed: str) -> list[Column]:
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
