"""The documented views, as SQL, and which Parquet parts stand behind them.

    trajectories    one row per trajectory, from its own row or, outside any `rollout_trace_attr`, from its top op
    spans, transitions, scores, notes, losses, flags, texts      the tables of the store (record/tables.py)
    tokens          the token columns of the ops that have any
    latest_scores   the newest value of each score of a trajectory (query/score_views.py)
    labels          what people say of trajectories and turns now: labels and notes
    unmatched_scores                    those of trajectories that nobody traced, or that are not known yet
    passes          which rollouts passed, and what that means (query/passes.py)
    groups          all rollouts of one sample in one step together (query/group_views.py)
    group_records   what was recorded for a whole group, and is no rollout

Each table is a view over its parts and over the live rows of the journals; a score has the id and coordinates of its
trajectory, however it was given. Names that begin with `_` are ours: they may change. The views of a listing read small
columns only: no inputs, outputs or token lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rolltrace.pass_rule import Experiment, PassRule
from rolltrace.query.columns import COLUMNS, TRAJECTORY_COLUMNS
from rolltrace.query.group_views import SAMPLE_NUMBER
from rolltrace.query.listing import PLACE
from rolltrace.query.passes import pass_views
from rolltrace.query.runs import SAME_STEP, newest_runs
from rolltrace.query.score_views import (
    SCORE_VIEWS,
    SCORED_UNTIL,
    SHOWN_SCORES,
    marked,
    newest_shown,
    with_id,
    with_late,
    without_coordinates,
)
from rolltrace.query.step_rows import step_rows
from rolltrace.query.transition_views import TRANSITION_VIEWS
from rolltrace.record import (
    FLAGS,
    INSTEAD,
    LOSSES,
    SCORES,
    SPANS,
    TABLES,
    TEXTS,
    TIMES,
    TRAJECTORIES,
    TRANSITIONS,
    WHERE,
    ColumnType,
    Table,
)
from rolltrace.store import Partition, table_of

if TYPE_CHECKING:
    import duckdb

_READ = re.compile(r"\b(?:from|join)\s+\"?([a-z_]+)")
_ASKS_WHAT_THERE_IS = re.compile(r"\b(?:show|describe|information_schema|duckdb_\w+|sqlite_master|pg_\w+)\b")

LISTED = (TRAJECTORIES, SPANS, SCORES, FLAGS)
"""The tables that a listing is made of."""

_SHARED = ", ".join(f"s.{column.name}" for column in (*WHERE, *TIMES) if column.name != "traceback")
_LISTING = f"""
WITH own AS (
    SELECT * FROM _active_trajectories WHERE is_group IS NOT TRUE
    QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY end_ns IS NULL, end_ns DESC, start_ns) = 1
), loose AS (
    SELECT {_SHARED}, s.name
    FROM _active_spans s ANTI JOIN _active_trajectories USING (trajectory_id)
    QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY parent_id IS NOT NULL, start_ns) = 1
), every AS (
    SELECT *, {", ".join(f"{sql} AS {name}" for name, sql in SCORED_UNTIL.items())} FROM (
        SELECT * EXCLUDE (traceback, parent_op_id, is_group) FROM own
        UNION ALL BY NAME
        SELECT * FROM loose
    )
), newest AS ({newest_runs("every")}), calls AS (
    SELECT
        trajectory_id,
        count(*) FILTER (kind = 'llm') AS turns,
        count(*) FILTER (kind = 'tool') AS tool_calls,
        count(*) FILTER (kind = 'tool' AND status = 'error') AS tool_errors,
        arg_max(prompt_tokens, start_ns) FILTER (kind = 'llm') AS prompt_tokens,
        sum(response_tokens) FILTER (kind = 'llm') AS response_tokens,
        min(policy_version) FILTER (kind <> 'aux_llm') AS policy_version_min,
        max(policy_version) FILTER (kind <> 'aux_llm') AS policy_version_max
    FROM _active_spans GROUP BY trajectory_id
)
SELECT
    {", ".join(f"{column.sql} AS {column.name}" for column in COLUMNS)},
    sample_is_int AS _is_int,
    {", ".join(SCORED_UNTIL)},
    {", ".join(f"_{name}_at" for name in SHOWN_SCORES)}
FROM every
JOIN newest ON {SAME_STEP}
LEFT JOIN calls USING (trajectory_id)
LEFT JOIN ({newest_shown(f"({with_id('_active_scores', 'every')})")}) USING (trajectory_id)
LEFT JOIN (
    SELECT trajectory_id, list_sort(list(DISTINCT flag)) AS flags FROM _active_flags GROUP BY trajectory_id
) found USING (trajectory_id)
LEFT JOIN ({marked("_active_scores")}) marked USING (trajectory_id)
"""

_SPANS = f"""
SELECT *,
    (end_ns - start_ns) / 1e9 AS duration_s,
    {SAMPLE_NUMBER} AS sample_number,
    CASE WHEN prompt_tokens IS NOT NULL THEN tokens[1:prompt_tokens] END AS prompt_ids,
    CASE WHEN response_tokens IS NOT NULL THEN tokens[coalesce(prompt_tokens, 0) + 1:] END AS response_ids,
    CASE WHEN prompt_tokens IS NOT NULL THEN substring(text, 1, prompt_chars) END AS prompt_text,
    CASE WHEN response_tokens IS NOT NULL THEN substring(text, prompt_chars + 1) END AS response_text,
    json_extract(payload, '$.inputs')::VARCHAR AS inputs,
    json_extract(payload, '$.outputs')::VARCHAR AS outputs
FROM _spans_with_text
"""
"""One column on disk, for the compression; two for people."""

_LATE_TEXTS = """
SELECT s.* REPLACE (
    coalesce(s.text, x.text) AS text,
    coalesce(s.prompt_chars, x.prompt_chars) AS prompt_chars,
    coalesce(s.piece_chars, x.piece_chars) AS piece_chars
)
FROM _spans s LEFT JOIN texts x ON x.trajectory_id = s.trajectory_id AND x.op_id = s.op_id
"""

_TOKENS = """
SELECT trajectory_id, project, experiment, step, op_id, name, start_ns, policy_version, prompt_ids, response_ids,
    logprobs, response_mask
FROM spans WHERE prompt_ids IS NOT NULL OR response_ids IS NOT NULL
"""

COMPUTED = "_computed"
"""The listing of steps that have no summary which can be used; without late scores."""
STEP_ROWS = "_steps"
SUMMED = "_summed_steps"
"""The name of the table of those rows of `_steps` that summaries have. The engine makes it."""
LATE = "_late"
"""Under which name the engine registers the late scores of the parts, if there are any, as `newest_shown` has them."""
_LATE_LIVE = "_late_live"

DROPPED = "_dropped"
"""The ids of trajectories that were begun and then not kept, in a table that the engine makes if there are any."""

_DERIVED = {
    **SCORE_VIEWS,
    **TRANSITION_VIEWS,
    "spans": _SPANS,
    "trajectories": f"SELECT {', '.join(TRAJECTORY_COLUMNS)}, {SAMPLE_NUMBER} AS sample_number FROM _listing",
    "tokens": _TOKENS,
}
"""Views over other views, each after those that it reads."""

VIEWS = (
    "trajectories", "spans", "transitions", "scores", "notes", "losses", "flags", "texts", "tokens", "latest_scores",
    "labels", "unmatched_scores", "passes", "groups", "group_records",
)  # fmt: skip
"""The documented ones."""


SQL_TYPES: dict[ColumnType, str] = {
    "text": "VARCHAR",
    "long text": "VARCHAR",
    "json": "VARCHAR",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "int32[]": "INTEGER[]",
    "float32[]": "FLOAT[]",
    "int8[]": "TINYINT[]",
}
"""What DuckDB calls the types of columns."""


class Chosen(NamedTuple):
    """The trajectories `t` that meet some conditions, in two pieces of SQL."""

    before: list[str]
    """What stands in a WITH before the SELECT: name AS (...)."""
    after: str
    """What stands behind its FROM."""


def chosen(conditions: str, predicate: str, views: Sequence[str] = ("latest_scores", "passes", "groups")) -> Chosen:
    """Those that meet plain conditions and a filter's predicate.

    A predicate that looks into ops, scores and groups several times is kept apart from the plain conditions, and the
    views that it looks into are computed once: 50 conditions on scores took DuckDB 2.0 85 s to plan, and take 0.2 s
    like this.
    """
    if predicate.count("EXISTS (") < 2:
        return Chosen([], f"_listing t WHERE {conditions} AND ({predicate})")
    before = [f"{name} AS MATERIALIZED (SELECT * FROM _{name})" for name in views if f"FROM {name} " in predicate]
    before.append(f"candidates AS MATERIALIZED (SELECT * FROM _listing t WHERE {conditions})")
    return Chosen(before, f"candidates t WHERE {predicate}")


NEWEST = "_newest_ns"
"""When the newest trajectory of the same experiment began, of those that were asked for: orders experiments by age."""


def live_name(table: str) -> str:
    """Under which name the live rows of a table are registered."""
    return f"_live_{table}"


def no_live_rows() -> str:
    """SQL: an empty table for the live rows of each table, behind those that are registered under the same name."""
    columns = {
        table.name: ", ".join(f'"{name}" {SQL_TYPES[kind]}' for name, kind, _ in table.columns) for table in TABLES
    }
    return ";".join(f"CREATE TABLE {live_name(table)} ({types})" for table, types in columns.items())


def stored_name(table: Table) -> str:
    """Under which name a table is seen as it is stored; those with an underscore have a view for people."""
    return f"_{table.name}" if table in (TRAJECTORIES, SPANS, SCORES, TRANSITIONS) else table.name


def listing_question(parts: Sequence[Path]) -> str:
    """The listing of these parts and the live rows, each row with the number of its folder."""
    number = f"dense_rank() OVER (ORDER BY {', '.join(Partition._fields)})"
    return f"{_active_tables(parts)} SELECT {number} AS {PLACE}, * FROM ({_LISTING})"


def strays_question(parts: Sequence[Path]) -> str:
    """Project, experiment and step of rows whose trajectory is not in the same place."""
    return f"{_active_tables(parts)} {_STRAYS}"


def _active_tables(parts: Sequence[Path]) -> str:
    # Not as views, which DuckDB would bind twice, and not materialised, which would read all columns.
    tables = (f"_active_{table.name} AS NOT MATERIALIZED ({_select(table, parts, False)})" for table in LISTED)
    return f"WITH {', '.join(tables)}"


_STRAYS = """
SELECT DISTINCT project, experiment, step FROM (
    SELECT * FROM (
        SELECT trajectory_id, project, experiment, step FROM _active_spans
        UNION ALL SELECT trajectory_id, project, experiment, step FROM _active_flags
        UNION ALL SELECT trajectory_id, project, experiment, step FROM _active_scores WHERE step IS NOT NULL
    ) ANTI JOIN _active_trajectories USING (trajectory_id, project, experiment, step)
) WHERE trajectory_id IS NOT NULL
"""
"""Where rows lie whose trajectory is not in the same place: it may be one of another experiment."""


def late_statement(parts: Sequence[Path]) -> str:
    """The question whose answer the engine registers as `LATE`, over those of these parts that hold scores."""
    return newest_shown(without_coordinates(f"({_select(SCORES, parts, False)})"))


class Sources(NamedTuple):
    """What the views read. What there is none of costs no join."""

    parts: Sequence[Path]
    computed: str
    """The SELECT behind `COMPUTED`; empty if there are listings only."""
    listings: Sequence[Path]
    """The listings of summaries."""
    touched: Sequence[Path]
    """Those of them that have late scores which are not in the rows of `SUMMED`."""
    late: bool
    """There are rows registered as `LATE`."""
    late_live: bool
    """There are live scores without coordinates."""
    texts: bool
    """There are live rows of `texts`."""
    dropped: bool
    """There are ids in `DROPPED`."""
    pass_rules: Mapping[Experiment, PassRule] = {}
    """What pass means, in the experiments for which somebody has chosen."""


def views(sources: Sources) -> dict[str, str]:
    """Name -> SQL of every view; each is made when a question asks for it, after those that it reads."""
    tables = {stored_name(table): _select(table, sources.parts, sources.dropped) for table in TABLES}
    texts = sources.texts or any(table_of(part) == TEXTS.name for part in sources.parts)
    statements = {**tables, "_spans_with_text": _LATE_TEXTS if texts else "SELECT * FROM _spans"}
    if sources.computed:
        statements[COMPUTED] = sources.computed
    if sources.late_live:
        statements[_LATE_LIVE] = newest_shown(without_coordinates(live_name(SCORES.name)))
    statements["_rows"] = _union(sources, sources.listings)
    statements["_listing"] = _with_late("_rows", sources)
    statements["_steps"] = f"SELECT * FROM {SUMMED}"
    if sources.computed or sources.touched:
        statements["_unsummed_rows"] = _union(sources, sources.touched)
        statements["_unsummed"] = _with_late("_unsummed_rows", sources)
        statements["_steps"] += f" UNION ALL BY NAME ({step_rows('_unsummed')})"
    return {**statements, **_DERIVED, **pass_views(sources.pass_rules)}


def whole_views(pass_rules: Mapping[Experiment, PassRule] = MappingProxyType({})) -> dict[str, str]:
    """Name -> SQL of every view over whole tables, each after those that it reads: without journals and summaries.

    They read the stored tables under the names of `table_in_files`. Other engines get them (query/dialects).
    """
    tables = {
        stored_name(table): f"SELECT * FROM {table_in_files(table)}" + (_WITHOUT_DROPPED if table is not LOSSES else "")
        for table in (LOSSES, *(table for table in TABLES if table is not LOSSES))
    }
    dropped = f"SELECT DISTINCT trajectory_id FROM {table_in_files(LOSSES)} WHERE trajectory_id IS NOT NULL"
    listing = _LISTING
    for table in LISTED:
        listing = re.sub(rf"\b_active_{table.name}\b", stored_name(table), listing)
    return {
        DROPPED: dropped,
        **tables,
        "_spans_with_text": _LATE_TEXTS,
        "_rows": listing,
        "_listing": "SELECT * FROM _rows",
        **_DERIVED,
        **{name: sql for name, sql in pass_views(pass_rules).items() if name != "_judged_steps"},
    }


def table_in_files(table: Table) -> str:
    """Under which name `whole_views` read a table."""
    return f"_files_{table.name}"


def with_late_scores(late: bool) -> str:
    """The rows of `COMPUTED` with late scores, if there are any."""
    return with_late(COMPUTED, LATE) if late else f"SELECT * FROM {COMPUTED}"


def _with_late(listing: str, sources: Sources) -> str:
    laid = f"SELECT * FROM {listing}"
    for late, there_is in ((LATE, sources.late), (_LATE_LIVE, sources.late_live)):
        if there_is:
            laid = with_late(f"({laid})", late)
    return laid


def _union(sources: Sources, listings: Sequence[Path]) -> str:
    tables = [COMPUTED] if sources.computed else []
    if listings:
        # All of one version, so of one schema: only the first is opened before the others are read.
        tables.append(f"read_parquet([{_quoted(listings)}], hive_partitioning=false)")
    # A listing may be older than a drop. Each row is made of one trajectory, so it is right to leave it out here.
    without = _WITHOUT_DROPPED if sources.dropped else ""
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {table}{without}" for table in tables)


_WITHOUT_DROPPED = f" ANTI JOIN {DROPPED} USING (trajectory_id)"


def _quoted(files: Sequence[Path]) -> str:
    return ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)


def _select(table: Table, parts: Sequence[Path], dropped: bool) -> str:
    """The rows of a table, live and stored, without those of dropped trajectories."""
    leave_out = _WITHOUT_DROPPED if dropped and table is not LOSSES else ""
    parts = [part for part in parts if table_of(part) == table.name]
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    live = f"SELECT {columns} FROM {live_name(table.name)}"
    if not parts:
        return live + leave_out
    # The live rows have every column, so one that no part has yet is there too, as null.
    stored = f"SELECT * FROM read_parquet([{_quoted(parts)}], union_by_name=true, hive_partitioning=false)"
    if table in (TRAJECTORIES, SPANS):
        columns = ", ".join(_never_null(column.name) for column in table.columns)
    return f"SELECT {columns} FROM ({live} UNION ALL BY NAME {stored}){leave_out}"


def _never_null(name: str) -> str:
    """A column that everybody reads has a value, in a part that was not written by a drainer too."""
    if name not in INSTEAD:
        return f'"{name}"'
    value = INSTEAD[name]
    literal = f"'{value}'" if isinstance(value, str) else str(value).lower()
    return f'coalesce("{name}", {literal}) AS "{name}"'


class Cursor(NamedTuple):
    """A connection, and the views that can be made in it."""

    connection: duckdb.DuckDBPyConnection
    views: dict[str, str]
    created: set[str]
    """The names of those that were."""
    tables: list[str]
    """Tables of the database that are of no use without it."""
    reads: set[str]
    """Tables of the database that its listing is in."""

    def make_views(self, sql: str | None) -> None:
        """Make the views that a statement names, after those that they read; all of them if it is not given."""
        self.make(self.views if sql is None else self._names_in(sql))

    def make(self, names: Iterable[str]) -> None:
        """Make the views of these names, after those that they read."""
        waiting = [name for name in names if name in self.views]
        while waiting:
            name = waiting[-1]
            missing = [each for each in self._names_in(self.views[name]) if each not in self.created]
            if name in self.created or not missing:
                waiting.pop()
                if name not in self.created:
                    kind = "TABLE" if name == STEP_ROWS else "VIEW"  # asked several times in a row
                    self.connection.execute(f"CREATE TEMP {kind} {name} AS {self.views[name]}")
                    self.created.add(name)
            else:
                waiting += missing

    def tables_read(self, sql: str | None) -> set[str]:
        """The tables whose parts a statement reads, as far as that can be seen; all of them if it is not given."""
        if sql is None:
            return {table.name for table in TABLES}
        seen: set[str] = set()
        waiting = self._names_in(sql)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self._names_in(self.views[name])
        return {table.name for table in TABLES if stored_name(table) in seen}

    def _names_in(self, sql: str) -> list[str]:
        """The views that a statement reads, as far as that can be seen."""
        text = sql.lower()
        if _ASKS_WHAT_THERE_IS.search(text):
            return list(self.views)
        return [name for name in dict.fromkeys(_READ.findall(text)) if name in self.views]
