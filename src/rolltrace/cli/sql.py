"""`rolltrace sql`: one SELECT over the views of a store."""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import age_sec, counted, size_of
from rolltrace.cli.command import argument, command, one_of, option
from rolltrace.cli.options import JSON, STORE, Options
from rolltrace.cli.output import Column, field_text, paint, plain, print_rows, print_table, warn, working
from rolltrace.errors import ConfigError
from rolltrace.exchange import write_csv

if TYPE_CHECKING:
    from rolltrace.query import Store

_MAX_CELL = 400
_EXAMPLES = """views: trajectories, messages, ops, spans, tokens, transitions, scores, notes,
       losses, flags, runs, blobs, latest_scores, labels, unmatched_scores,
       passes, groups, group_records

examples:
  rolltrace sql "select step, avg(reward) from trajectories group by step"
  rolltrace sql "describe messages"
  rolltrace sql "from groups where std = 0" runs/store --csv > groups.csv"""


@command(
    "ask with SQL",
    "Run one SELECT (DuckDB SQL) over the views of a store, read-only. Tables and CSV show control characters as "
    "\\x1b, and CSV puts a quote before text that a spreadsheet would take for a formula; --json is exact.",
    argument("query", "the statement, in quotes", "SELECT", required=False),
    STORE,
    option("--timeout TIME", "give up after this time, such as 30s or 5m (default: never)"),
    option("--memory SIZE", "use at most this much, such as 4GiB (default: half of all)"),
    one_of(JSON, option("--csv", "print CSV with a header line")),
    epilog=_EXAMPLES,
)
def sql(options: Options) -> int:
    if options.query is None:
        raise ConfigError('which SELECT? rolltrace sql "select step, avg(reward) from trajectories group by step"')
    from rolltrace.query import Limit, open_store

    limit = None if options.timeout is None else Limit(age_sec("--timeout", options.timeout, "a time such as 30s"))
    memory_bytes = _half_of_all() if options.memory is None else size_of("--memory", options.memory)
    store = open_store(options.store_path(), memory_limit=f"{memory_bytes}")
    with working(f"reading {store.path}"), limit or nullcontext():
        result = store.sql(options.query)
        _tell_of_older_runs(store, options.query)
    if options.json:
        print_rows(result.rows())
        return 0
    # By column: a SELECT may give the same name to two.
    names, columns = result.columns, [column.to_pylist() for column in result.arrow().columns]
    if options.csv:
        write_csv(sys.stdout, names, zip(*columns))
        return 0
    hidden = print_table([_column(name, values) for name, values in zip(names, columns)])
    more = f"; {counted(hidden, 'more column')}: --json, --csv, or a wider terminal" if hidden else ""
    where = "" if len(result) else f" in the store {plain(repr(str(store.path)))}"
    print(paint(f"{counted(len(result), 'row')}{where}{more}", "dim"))
    return 0


def _half_of_all() -> int:
    """Half of this machine's memory: what trains beside us needs the rest."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _tell_of_older_runs(store: Store, query: str) -> None:
    """The views hold all runs: say so where the statement does not choose."""
    if re.search(r"\b(superseded|run)\b", query, re.IGNORECASE) or not re.search(r"\bfrom\b", query, re.IGNORECASE):
        return
    older = sum(row["superseded"] for row in store.experiments())
    if older:
        left = f"the views include all runs, and {counted(older, 'trajectory')} of older ones"
        warn(f"{left}; newest only: WHERE NOT superseded (trajectories, groups)")


def _column(name: str, values: list[Any]) -> Column:
    is_number = all(value is None or isinstance(value, int | float) for value in values)
    cells = [field_text(value[:_MAX_CELL] if isinstance(value, str | list) else value) for value in values]
    return Column(plain(name), cells, right=is_number, stretch=True)
