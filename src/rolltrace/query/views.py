"""The documented views, as SQL over the tables of the store (`tables.columns`).

    trajectories    one row per trajectory
    messages, ops, transitions, scores, notes, flags, losses, runs, blobs       the tables
    spans           ops with the tokens of model calls beside them
    tokens          prompt and response ids, logprobs and mask of the model calls that have any
    latest_scores   the newest value of each score of a trajectory
    labels          what people say of trajectories and turns now: labels and notes
    unmatched_scores                    those of trajectories that nobody traced, or that are not known yet
    passes          which rollouts passed, and what that means
    groups          all rollouts of one sample in one step together
    group_records   what was recorded for a whole group, and is no rollout

A score has the id and coordinates of its trajectory, however it was given. Names that begin with `_` are ours: they may
change. `_listing` reads small columns only, and `ops` no tokens: a question that needs none pays for none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rolltrace.pass_rule import NOT_CHOSEN, Experiment, PassRule
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.database import duckdb
from rolltrace.tables import TABLE_SCHEMAS, Place, sql_literal

IS_ROLLOUT = "branch IS NOT TRUE"
"""Not a branch: one that was begun inside another with the same coordinates is a part of that rollout."""

_PLACE = ("project", "experiment", "step", "sample_index", "rollout_n", "validate", "run")
_WITH_PLACE = f"""
SELECT s.* REPLACE (
    {", ".join(f"coalesce(t.{name}, s.{name}) AS {name}" for name in _PLACE)},
    CASE WHEN t._is_int THEN TRY_CAST(t.sample_index AS BIGINT) ELSE s.sample_number END AS sample_number
), t.trajectory_id IS NOT NULL AS _known
FROM _scores s LEFT JOIN _listing t ON t.trajectory_id = s.trajectory_id
"""
"""Every score with the coordinates of its trajectory, as far as they are known."""

_LATEST = """
SELECT trajectory_id, name, newest.value AS value, newest.terms AS terms, newest.time_ns AS time_ns,
    newest.label AS label, newest.reason AS reason, newest.trained_step AS trained_step, author, op_id
FROM (
    SELECT trajectory_id, name, author, op_id, arg_max({
        'value': value, 'terms': terms, 'time_ns': time_ns, 'label': label, 'reason': reason,
        'trained_step': trained_step
    }, (time_ns, worker, value, label)) AS newest
    FROM _scores SEMI JOIN _listing USING (trajectory_id) GROUP BY trajectory_id, name, author, op_id
)
"""

_LABELS = """
SELECT x.trajectory_id, x.op_id, x.name, x.label AS value, x.author, x.time_ns, x.reason,
    t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate
FROM _latest_scores x JOIN _listing t USING (trajectory_id) WHERE x.author IS NOT NULL AND x.label IS NOT NULL
"""
"""What people say now, each about a trajectory or an op of it. A label that was taken back is not there."""

_AMENDED = ("reward", "episode_done", "stop_reason")

_PAIR = "(said, more) ->" if duckdb.__version__.startswith("1.2.") else "lambda said, more:"
"""How a function of two begins: DuckDB knows the one spelling since 1.3, and the other one until 2.0."""


def _newest(column: str) -> str:
    """The newest value given, in a struct: null is a value too. Of a pruned amendment only those not null are known."""
    has_value = f"json_exists(l.fields, '$.{column}') OR l.{column} IS NOT NULL"
    return f"arg_max({{'said': l.{column}}}, l.time_ns) FILTER ({has_value}) AS {column}"


_TRANSITIONS = f"""
WITH late AS MATERIALIZED (
    SELECT trajectory_id, time_ns, turn, fields, {", ".join(_AMENDED)} FROM _transitions WHERE amends
), numbered AS (
    SELECT trajectory_id, time_ns, worker,
        row_number() OVER of_trajectory - 1 AS number,
        lead(time_ns) OVER of_trajectory AS next_ns,
        count(*) OVER (PARTITION BY trajectory_id) AS steps
    FROM _transitions SEMI JOIN late USING (trajectory_id) WHERE amends IS NOT TRUE AND backfill IS NOT TRUE
    WINDOW of_trajectory AS (PARTITION BY trajectory_id ORDER BY time_ns, worker)
), amended AS (
    SELECT n.trajectory_id, n.time_ns, n.worker,
        list(l.fields ORDER BY l.time_ns) FILTER (l.fields IS NOT NULL) AS given,
        {", ".join(map(_newest, _AMENDED))}
    FROM late l JOIN numbered n ON n.trajectory_id = l.trajectory_id AND CASE
        WHEN l.turn IS NULL THEN n.time_ns <= l.time_ns AND coalesce(n.next_ns > l.time_ns, true)
        ELSE n.number = l.turn + CASE WHEN l.turn < 0 THEN n.steps ELSE 0 END
    END
    GROUP BY n.trajectory_id, n.time_ns, n.worker
)
SELECT t.* EXCLUDE (amends, turn) REPLACE (
    {", ".join(f"CASE WHEN a.{name} IS NULL THEN t.{name} ELSE a.{name}.said END AS {name}" for name in _AMENDED)},
    CASE
        WHEN a.given IS NULL THEN t.fields
        ELSE list_reduce(
            list_prepend(coalesce(t.fields, '{{}}'), a.given), {_PAIR} json_merge_patch(said, more)
        )
    END AS fields
)
FROM _transitions t LEFT JOIN amended a
    ON a.trajectory_id = t.trajectory_id AND a.time_ns = t.time_ns AND a.worker = t.worker AND t.backfill IS NOT TRUE
WHERE t.amends IS NOT TRUE
"""

GROUP_KEY = ("project", "experiment", "step", "sample_index", "validate", "run")
GROUP_COLUMNS = (
    *GROUP_KEY, "size", "scored", "mean", "std", "min", "max", "spread", "best", "worst", "passed", "pass_rate",
    "zero_variance", "response_tokens_mean", "response_tokens_min", "response_tokens_max", "turns_mean",
    "duration_s_max", "flags", "errors", "superseded", "pass_rule",
)  # fmt: skip
"""The columns of `groups`, in order."""
_RECORD_COLUMNS = (
    "trajectory_id", *GROUP_KEY, "name", "status", "error", "start_ns", "end_ns", "tags", "worker"
)  # fmt: skip
"""The stored columns of `group_records`, in order."""

SAME_GROUP = " AND ".join(f"g.{name} IS NOT DISTINCT FROM t.{name}" for name in GROUP_KEY)
"""Joins a group `g` to a trajectory `t` of it."""

_RANKED = "FILTER (reward IS NOT NULL AND NOT isnan(reward))"
_FIRST = "rollout_n, start_ns, trajectory_id"


SAMPLE_NUMBER = "CASE WHEN regexp_matches(sample_index, '^-?[0-9]+$') THEN TRY_CAST(sample_index AS BIGINT) END"
"""A sample as a number, which sorts as one: 2 before 10. Null where it is another text."""

ZERO_VARIANCE = "count(reward) > 1 AND coalesce(isfinite(min(reward)) AND min(reward) = max(reward), false)"
"""Two rewards or more, all the same."""


PASSED = "CASE WHEN count(reward) = 0 OR count(_passed) > 0 THEN count(*) FILTER (_passed) END"
"""How many passed; null if none of those that have a reward has a verdict."""

_GROUPS = f"""
SELECT *, CASE WHEN scored > 0 THEN passed / scored END AS pass_rate
FROM (
    SELECT
        {", ".join(GROUP_KEY)},
        count(*) AS size,
        count(reward) AS scored,
        avg(reward) AS mean,
        stddev_pop(reward) FILTER (isfinite(reward)) AS std,
        min(reward) AS min,
        max(reward) AS max,
        max(reward) - min(reward) AS spread,
        first(trajectory_id ORDER BY reward DESC, {_FIRST}) {_RANKED} AS best,
        first(trajectory_id ORDER BY reward, {_FIRST}) {_RANKED} AS worst,
        {PASSED} AS passed,
        {ZERO_VARIANCE} AS zero_variance,
        avg(response_tokens) AS response_tokens_mean,
        min(response_tokens) AS response_tokens_min,
        max(response_tokens) AS response_tokens_max,
        avg(turns) AS turns_mean,
        max(duration_s) AS duration_s_max,
        list_sort(list_distinct(flatten(list(flags)))) AS flags,
        count(*) FILTER (status = 'error') AS errors,
        bool_or(superseded) AS superseded,
        any_value(pass_rule) AS pass_rule,
        bool_and(_is_int) AS _is_int
    FROM _judged WHERE sample_index IS NOT NULL AND {IS_ROLLOUT}
    GROUP BY {", ".join(GROUP_KEY)}
)
"""


def pass_at(k: int) -> str:
    """SQL of pass@k: the chance that one of k rollouts passes, drawn from those of a group `g` that have a reward.

    The estimator without bias, 1 - C(n-c, k) / C(n, k), as a product that stays between 0 and 1. Null if k > n.
    """
    missed = f"list_aggregate([1 - {k} / i for i in range(g.scored - g.passed + 1, g.scored + 1)], 'product')"
    return f"CASE WHEN g.scored >= {k} THEN 1 - coalesce({missed}, 1) END"


def pass_columns(ks: Sequence[int]) -> dict[str, str]:
    """Name of the column -> its SQL."""
    return {f"pass@{k}": pass_at(k) for k in ks}


_RECORDS = f"""
SELECT {", ".join(_RECORD_COLUMNS)}, duration_s, sample_number IS NOT NULL AS _is_int
FROM _stored_group_records WHERE start_ns IS NOT NULL
"""
"""What was recorded for a whole group: no rollout, under an id of its own."""

TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""
STEP_KEY = ("project", "experiment", "step", "validate")
"""What the attempts at one step have in common; training and validation are apart."""
_STEPS = f"""
SELECT {", ".join(STEP_KEY)}, run, superseded,
    count(*) AS trajectories,
    count(*) FILTER (status = 'running') AS running,
    count(*) FILTER (status = 'interrupted') AS interrupted,
    min(start_ns) AS start_ns,
    max(start_ns) AS newest_ns,
    max(coalesce(end_ns, start_ns)) AS last_ns,
    avg(reward) FILTER (isfinite(reward)) AS finite_mean,
    min(reward) FILTER (isfinite(reward)) AS finite_min,
    max(reward) FILTER (isfinite(reward)) AS finite_max,
    to_json(list_aggregate(flatten(list(flags)), 'histogram'))::VARCHAR AS flags
FROM _listing GROUP BY {", ".join(STEP_KEY)}, run, superseded
"""
"""What all trajectories of one step and run have in common, superseded ones apart."""

_PASS_COLUMNS = """trajectory_id, project, experiment, step, sample_index, rollout_n, validate, run, superseded,
    _passed AS passed, pass_rule"""


def judged_select(
    rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None, listing: str = "_listing"
) -> str:
    """SQL: a listing with `_passed` and `pass_rule`; `everywhere` is a rule that counts instead of those.

    A rollout without a reward has no verdict. One whose reward lacks the term has not passed, unless no reward has that
    term at all: then the rule is a mistake, and nothing has a verdict.
    """
    rules = {} if everywhere is not None else rules
    other = everywhere or NOT_CHOSEN
    terms = sorted({rule.term for rule in (*rules.values(), other) if rule.term is not None})
    cases = [(_is_of(experiment), rule) for experiment, rule in sorted(rules.items())]
    passed = _choose([(where, _verdict(rule, terms)) for where, rule in cases], _verdict(other, terms))
    text = rule_text_sql(rules, everywhere)
    select = f"SELECT t.*, CASE WHEN t.reward IS NOT NULL THEN {passed} END AS _passed, {text} AS pass_rule"
    if not terms:
        return f"{select} FROM {listing} t"
    used = ", ".join(f"bool_or(map_contains(terms, {sql_literal(term)})) AS v{at}" for at, term in enumerate(terms))
    return f"{select} FROM {listing} t, (SELECT {used} FROM _listing WHERE terms IS NOT NULL) used"


def rule_text_sql(rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None) -> str:
    """SQL: what pass means in the experiment of a row `t`, in words."""
    if everywhere is not None:
        return sql_literal(everywhere.text)
    cases = [(_is_of(experiment), sql_literal(rule.text)) for experiment, rule in sorted(rules.items())]
    return _choose(cases, sql_literal(NOT_CHOSEN.text))


def pass_views(rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None) -> dict[str, str]:
    """Name -> SQL of the views that say what passed, each after those that it reads."""
    return {
        "_judged": judged_select(rules, everywhere),
        "_passes": f"SELECT {_PASS_COLUMNS} FROM _judged",
        "passes": "SELECT * FROM _passes",
        "_groups": _GROUPS,
        "groups": f"SELECT {', '.join(GROUP_COLUMNS)}, {SAMPLE_NUMBER} AS sample_number FROM _groups",
    }


def with_rule(rule: PassRule | None, before: Sequence[str] = ()) -> list[str]:
    """The pieces of a WITH, `name AS (...)`, after which a question sees this rule in all experiments."""
    if rule is None:
        return list(before)
    named = {piece.partition(" AS ")[0] for piece in before}
    views = {name: sql for name, sql in pass_views({}, rule).items() if name not in named}
    return [*(f"{name} AS ({sql})" for name, sql in views.items()), *before]


def _verdict(rule: PassRule, terms: list[str]) -> str:
    """SQL: whether a row `t` that has a reward has passed."""
    if rule.term is None:
        return rule.sql("t.reward")
    passed = rule.sql(f"t.terms[{sql_literal(rule.term)}]")
    return f"CASE WHEN used.v{terms.index(rule.term)} THEN coalesce({passed}, false) END"


def _is_of(experiment: Experiment) -> str:
    project, name = experiment
    return f"(t.project = {sql_literal(project)} AND t.experiment = {sql_literal(name)})"


def _choose(cases: list[tuple[str, str]], other: str) -> str:
    if not cases:
        return other
    return f"CASE {' '.join(f'WHEN {where} THEN {sql}' for where, sql in cases)} ELSE {other} END"


_READ = re.compile(r"\b(?:from|join)\s+\"?([a-z_]+)")
_ASKS_WHAT_THERE_IS = re.compile(r"\b(?:show|describe|information_schema|duckdb_\w+|sqlite_master|pg_\w+)\b")
_SCHEMAS = {schema.name: schema for schema in TABLE_SCHEMAS}

_LISTING = f"""
SELECT {", ".join(TRAJECTORY_COLUMNS)},
    sample_number IS NOT NULL AS _is_int, branch, terms, records, open_ops, last_ns, scored_ns
FROM _rows
"""
_PEOPLES_TRAJECTORIES = f"""
SELECT {", ".join(TRAJECTORY_COLUMNS)}, {SAMPLE_NUMBER} AS sample_number,
    terms, task, answer
FROM _rows
"""
_PARENTS = "trajectory_id, traceback, parent_trajectory_id, parent_op_id, start_ns, end_ns"
_TOKEN_COLUMNS = """t.ids AS tokens, t.logprobs, t.mask AS response_mask, t.tokenizer, t.text, t.prompt_chars,
    t.piece_chars"""
_SPANS = f"""
SELECT o.*, {_TOKEN_COLUMNS}
FROM ops o LEFT JOIN _tokens t ON t.trajectory_id = o.trajectory_id AND t.op_id = o.op_id
"""
_PEOPLES_SPANS = f"""
SELECT * REPLACE ({SAMPLE_NUMBER} AS sample_number),
    CASE WHEN prompt_tokens IS NOT NULL THEN tokens[1:prompt_tokens] END AS prompt_ids,
    CASE WHEN response_tokens IS NOT NULL THEN tokens[coalesce(prompt_tokens, 0) + 1:] END AS response_ids,
    CASE WHEN prompt_tokens IS NOT NULL THEN substring(text, 1, prompt_chars) END AS prompt_text,
    CASE WHEN response_tokens IS NOT NULL THEN substring(text, prompt_chars + 1) END AS response_text,
    json_extract(payload, '$.inputs')::VARCHAR AS inputs,
    json_extract(payload, '$.outputs')::VARCHAR AS outputs
FROM _spans
"""
"""One column on disk, for the compression; two for people."""
_TOKENS = """
SELECT trajectory_id, project, experiment, step, op_id, name, start_ns, policy_version, prompt_ids, response_ids,
    logprobs, response_mask
FROM spans WHERE prompt_ids IS NOT NULL OR response_ids IS NOT NULL
"""

_DERIVED = {
    "_listing": _LISTING,
    "_trajectories": f"SELECT {_PARENTS} FROM _rows UNION ALL SELECT {_PARENTS} FROM _stored_group_records",
    "_scores_with_place": _WITH_PLACE,
    "scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place",
    "_latest_scores": _LATEST,
    "latest_scores": "SELECT * FROM _latest_scores",
    "labels": _LABELS,
    "unmatched_scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place WHERE NOT _known",
    "transitions": _TRANSITIONS,
    "_steps": _STEPS,
    "_spans": _SPANS,
    "spans": _PEOPLES_SPANS,
    "trajectories": _PEOPLES_TRAJECTORIES,
    "tokens": _TOKENS,
    "_group_records": _RECORDS,
    "group_records": "SELECT * EXCLUDE (_is_int) FROM _group_records",
}
"""Views over other views."""

VIEWS = (
    "trajectories", "messages", "ops", "spans", "tokens", "transitions", "scores", "notes", "losses", "flags", "runs",
    "blobs", "latest_scores", "labels", "unmatched_scores", "passes", "groups", "group_records",
)  # fmt: skip
"""The documented ones."""

STORED = {
    "trajectories": "_rows", "group_records": "_stored_group_records", "tokens": "_tokens", "scores": "_scores",
    "transitions": "_transitions",
}  # fmt: skip
"""Tables that people see through another view -> under which name they are seen as they are stored."""

MESSAGE_ROWS = "_message_rows"
"""The rows of `messages` as they are stored, partial ones too: a search through all text has nothing to reduce."""

MakeSql = Callable[[], str]
ReadTable = Callable[[str], str]
"""Gives SQL, in parentheses, of the rows of a table."""


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


def make_views(
    read: ReadTable, places: Iterable[Place], pass_rules: Mapping[Experiment, PassRule]
) -> dict[str, str | MakeSql]:
    """Name -> SQL of every view, or what gives it. Each is made when a question asks for it: a table that no question
    reads is not even opened."""

    def select(table: str) -> MakeSql:
        # Of a trajectory that has nothing but scores or flags so far, nobody knows what it is.
        condition = " WHERE start_ns IS NOT NULL" if table == "trajectories" else ""
        return lambda: f"SELECT * FROM {read(table)}{condition}"

    tables = {STORED.get(name, name): select(name) for name in (*_SCHEMAS, MESSAGE_ROWS)}
    return {**tables, "_places": lambda: _list_places(places), **_DERIVED, **pass_views(pass_rules)}


def _list_places(places: Iterable[Place]) -> str:
    """The steps that have files, which no file needs to be read for."""
    rows = [f"({', '.join(map(sql_literal, place))})" for place in places] or ["(NULL, NULL, NULL)"]
    columns = "project::VARCHAR AS project, experiment::VARCHAR AS experiment, step::BIGINT AS step"
    values = f"(VALUES {', '.join(rows)}) places(project, experiment, step)"
    return f"SELECT {columns} FROM {values} WHERE project IS NOT NULL"


def names_in(sql: str, views: Iterable[str]) -> list[str]:
    """The views that a statement reads, as far as that can be seen."""
    text = sql.lower()
    if _ASKS_WHAT_THERE_IS.search(text):
        return list(views)
    known = frozenset(views)
    return [name for name in dict.fromkeys(_READ.findall(text)) if name in known]
