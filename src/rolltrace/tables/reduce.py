"""Partial rows become one row per key, as SQL that is derived from the reducers of the columns.

The same statement serves a reader of a moving step and compaction, which writes its result once: so both give the same
answer. Settled columns of `trajectories` are computed here too: from the scores of the step, and from its other rows.
"""

from __future__ import annotations

from rolltrace.tables.columns import SQL_TYPES, TRAJECTORIES, TableColumn, TableSchema

_STEP_KEY = ("project", "experiment", "step", "validate")
_COORDINATES = (*_STEP_KEY, "sample_index", "rollout_n")


def reduce_rows(schema: TableSchema, rows: str, scores: str = "") -> str:
    """A SELECT that gives one row per key, or the rows as they are for a table without one. `rows` is SQL of a
    relation with partial and whole rows, `scores`, of `trajectories`, with the scores of the same steps."""
    if not schema.key:
        return f"SELECT {_names(schema)} FROM {rows}"
    if schema is TRAJECTORIES:
        return _trajectories(rows, scores)
    return _grouped(schema, rows)


def merge_rows(schema: TableSchema, rows: str) -> str:
    """A SELECT that gives fewer partial rows, which reduce to the same: for some of the files of a moving step."""
    return _grouped(schema, rows) if schema.key else f"SELECT {_names(schema)} FROM {rows}"


def _names(schema: TableSchema) -> str:
    return ", ".join(f'"{column.name}"' for column in schema.columns)


def _grouped(schema: TableSchema, rows: str) -> str:
    key = ", ".join(f'"{name}"' for name in schema.key)
    orders = dict.fromkeys(column.order for column in schema.columns if column.reducer == "newest")
    newest = [
        f"arg_max({{{_fields(schema, order)}}}, {order}) FILTER ({_is_said(order)}) AS _newest{number}"
        for number, order in enumerate(orders)
    ]
    plain = [
        f'{_aggregate(column)} AS "{column.name}"'
        for column in schema.columns
        if column.reducer not in ("key", "newest", "settled")
    ]
    inner = f"SELECT {', '.join([key, *plain, *newest])} FROM {rows} WHERE {schema.key[0]} IS NOT NULL GROUP BY {key}"
    place = {order: number for number, order in enumerate(orders)}
    outer = [
        f'_newest{place[column.order]}."{column.name}" AS "{column.name}"'
        if column.reducer == "newest"
        else f'{_DERIVED.get(column.name, "NULL")} AS "{column.name}"'
        if column.reducer == "settled"
        else f'"{column.name}"'
        for column in schema.columns
    ]
    return f"SELECT {', '.join(outer)} FROM ({inner})"


_DERIVED = {"duration_s": '(_newest0."end_ns" - start_ns) / 1e9'}


def _fields(schema: TableSchema, order: str) -> str:
    names = [column.name for column in schema.columns if column.order == order]
    return ", ".join(f"'{name}': \"{name}\"" for name in names)


def _is_said(order: str) -> str:
    """Whether a row says anything about the columns of this order."""
    return f"{order.lstrip('-(').split(',')[0].rstrip(')')} IS NOT NULL"


def _aggregate(column: TableColumn) -> str:
    name = f'"{column.name}"'
    if column.reducer == "sum":
        return f"sum({name})::{SQL_TYPES[column.type]}"
    if column.reducer == "union":
        return f"coalesce(list_sort(list_distinct(flatten(list({name}) FILTER ({name} IS NOT NULL)))), [])"
    if column.reducer == "merge":
        return f"map_from_entries(flatten(list(map_entries({name})) FILTER ({name} IS NOT NULL)))"
    return f"{ {'first': 'any_value', 'min': 'min', 'max': 'max'}[column.reducer] }({name})"


_NEWEST_SCORE = (
    "arg_max({'value': value, 'label': label, 'reason': reason, 'terms': terms, 'trained_step': trained_step}, "
    "(time_ns, worker, value, label))"
)
_POINTER = "'/' || replace(replace(key, '~', '~0'), '/', '~1')"
_TERM = (
    f"CASE json_extract_string(r.terms, {_POINTER}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE "
    f"TRY_CAST(coalesce(json_extract_string(r.terms, {_POINTER} || '/$float'), "
    f"json_extract_string(r.terms, {_POINTER})) AS DOUBLE) END"
)
"""What JSON cannot hold, nan and inf, is an object there (`record.to_json`)."""
_SETTLED_SCORES = {
    "reward": "r.value",
    "terms": (
        "CASE WHEN json_valid(r.terms) THEN map_from_entries(list_filter(list_transform("
        "list_distinct(json_keys(r.terms)), lambda key: {'key': key, 'value': " + _TERM + "}), "
        "lambda term: term.value IS NOT NULL)) END"
    ),
    "advantage": "a.value",
    "fate": "f.label",
    "fate_reason": "f.reason",
    "trained_step": "f.trained_step",
}


def match_scores(scores: str, trajectories: str) -> str:
    """The scores with the id of their trajectory, also those that were given by coordinates.

    Such a score belongs to the newest trajectory at its coordinates that began before the score was given, never to a
    later one: a reward server may outlive a restart of the training job. One of the score's own run comes first; one
    that was begun inside another has its coordinates only by inheritance, and comes last.
    """
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM t.{name}" for name in _COORDINATES)
    return f"""
SELECT * FROM {scores} WHERE trajectory_id IS NOT NULL
UNION ALL BY NAME
SELECT s.* REPLACE (t.trajectory_id AS trajectory_id)
FROM (SELECT *, row_number() OVER () AS _row FROM {scores} WHERE trajectory_id IS NULL) s
JOIN {trajectories} t ON {same} AND t.start_ns <= s.time_ns
QUALIFY row_number() OVER (
    PARTITION BY _row
    ORDER BY t.run IS NOT DISTINCT FROM s.run DESC, t.parent_trajectory_id IS NOT NULL, t.start_ns DESC, t.trajectory_id
) = 1
"""


def fill_ids(scores: str, trajectories: str) -> str:
    """The scores of a step; those by coordinates with the id of their trajectory, as far as there is one."""
    numbered = f"(SELECT *, row_number() OVER () AS _number FROM {scores})"
    return f"""
WITH _scores AS MATERIALIZED (SELECT * FROM {numbered}),
_matched AS (
    SELECT _number, trajectory_id FROM ({match_scores("_scores", f"({trajectories})")}) WHERE trajectory_id IS NOT NULL
)
SELECT _scores.* EXCLUDE (_number) REPLACE (coalesce(_scores.trajectory_id, _matched.trajectory_id) AS trajectory_id)
FROM _scores LEFT JOIN _matched USING (_number)
"""


def _trajectories(rows: str, scores: str) -> str:
    key = ", ".join(_STEP_KEY)
    settled = {column.name for column in TRAJECTORIES.columns if column.reducer == "settled"}
    columns = [
        f't."{column.name}"'
        if column.name not in settled or column.name in _DERIVED
        else f'{_OUTER[column.name]} AS "{column.name}"'
        for column in TRAJECTORIES.columns
    ]
    return f"""
WITH _merged AS MATERIALIZED (SELECT * FROM ({_grouped(TRAJECTORIES, rows)}) WHERE dropped IS NOT TRUE),
_matched AS MATERIALIZED ({match_scores(scores, "_merged")}),
_newest AS (
    SELECT trajectory_id,
        {_NEWEST_SCORE} FILTER (name = 'reward' AND author IS NULL) AS r,
        {_NEWEST_SCORE} FILTER (name = 'advantage' AND author IS NULL) AS a,
        {_NEWEST_SCORE} FILTER (name = 'fate' AND author IS NULL) AS f,
        max(time_ns) AS scored_ns
    FROM _matched GROUP BY trajectory_id
),
_labels AS (
    SELECT trajectory_id, list_sort(list(DISTINCT name)) AS labels FROM (
        SELECT trajectory_id, name, {_NEWEST_SCORE} AS newest FROM _matched
        WHERE author IS NOT NULL GROUP BY trajectory_id, name, author, op_id
    ) WHERE newest.label IS NOT NULL GROUP BY trajectory_id
),
_runs AS (
    SELECT {key}, arg_max(run_key, (run_key <> '', began, run_key)) AS newest_run FROM (
        SELECT {key}, coalesce(run, '') AS run_key, min(coalesce(run_ns, start_ns)) AS began FROM _merged GROUP BY ALL
    ) GROUP BY {key}
)
SELECT {", ".join(columns)}
FROM _merged t LEFT JOIN _newest USING (trajectory_id) LEFT JOIN _labels USING (trajectory_id)
JOIN _runs ON {" AND ".join(f"t.{name} IS NOT DISTINCT FROM _runs.{name}" for name in _STEP_KEY)}
"""


_OUTER = {
    **_SETTLED_SCORES,
    "staleness": (
        "CASE WHEN coalesce(f.trained_step, t.step) >= t.policy_version_min "
        "THEN coalesce(f.trained_step, t.step) - t.policy_version_min END"
    ),
    "labels": "coalesce(_labels.labels, [])",
    "scored_ns": "_newest.scored_ns",
    "superseded": "coalesce(t.run, '') <> newest_run AND (t.step IS NOT NULL OR t.sample_index IS NOT NULL)",
    "branch": (
        "t.parent_trajectory_id IS NOT NULL AND "
        "bool_or(t.parent_trajectory_id IS NULL) OVER "
        f"(PARTITION BY {', '.join(f't.{name}' for name in _COORDINATES)}, t.run)"
    ),
}
