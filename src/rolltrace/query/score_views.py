"""Which scores a trajectory has, as SQL: late ones join when somebody reads, and the newest of a name counts.

A score is given by id, with the coordinates of its trajectory or without any, or by coordinates alone. One that has
coordinates lies in the folder of its step, like the rest of its trajectory. One that has none lies in `step=none`,
where the listing of a step does not look: it is joined on top, and so a listing says of each score that it shows when
that was given, and by whom (`_..._at`). "Newest" is the same everywhere: by time, then by writer.

A label is a score with an author. Each author has a last word of their own on a trajectory and on each of its ops, and
always by id and coordinates: see `query.labelling`.
"""

from __future__ import annotations

from typing import NamedTuple

from rolltrace.query.runs import STEP_KEY


class Shown(NamedTuple):
    """A column of `trajectories` that a score fills."""

    column: str
    score: str
    field: str


SHOWN = (
    Shown("reward", "reward", "value"),
    Shown("advantage", "advantage", "value"),
    Shown("fate", "fate", "label"),
    Shown("fate_reason", "fate", "reason"),
    Shown("trained_step", "fate", "trained_step"),
)
SHOWN_SCORES = tuple(dict.fromkeys(shown.score for shown in SHOWN))

_COORDINATES = ("project", "experiment", "step", "sample_index", "rollout_n", "validate")
"""What a score that has no id shares with its trajectory."""
_AGE = {"ns": "time_ns", "writer": "worker", "value": "value", "label": "label"}
"""What is compared, field by field. The last two make the answer the same each time, whatever happens."""
_SAID = {**_AGE, "reason": "reason", "terms": "terms", "trained_step": "trained_step"}


def _struct(fields: dict[str, str]) -> str:
    inside = ", ".join(f"'{name}': {sql}" for name, sql in fields.items())
    return f"{{{inside}}}"


_NEWEST = f"arg_max({_struct(_SAID)}, {_struct(_AGE)})"


def newest_shown(scores: str) -> str:
    """One row per trajectory: what a listing shows of these scores, and when that was said."""
    names = ", ".join(f"'{name}'" for name in SHOWN_SCORES)
    newest = ", ".join(f"{_NEWEST} FILTER (name = '{name}') AS _{name}" for name in SHOWN_SCORES)
    fields = ", ".join(f"_{shown.score}.{shown.field} AS {shown.column}" for shown in SHOWN)
    ages = {name: _struct({field: f"_{name}.{field}" for field in _AGE}) for name in SHOWN_SCORES}
    times = ", ".join(f"CASE WHEN _{name} IS NOT NULL THEN {age} END AS _{name}_at" for name, age in ages.items())
    return (
        f"SELECT trajectory_id, {fields}, {times} FROM ("
        f"SELECT trajectory_id, {newest} FROM {scores} WHERE name IN ({names}) GROUP BY trajectory_id)"
    )


def without_coordinates(scores: str) -> str:
    """Those that were given by id alone."""
    return f"(SELECT * FROM {scores} WHERE step IS NULL AND trajectory_id IS NOT NULL)"


def with_late(listing: str, late: str) -> str:
    """A listing on which late scores, in the form of `newest_shown`, are laid."""
    keeps = {name: f"late._{name}_at IS NULL OR t._{name}_at >= late._{name}_at" for name in SHOWN_SCORES}
    columns = [(shown.column, shown.score) for shown in SHOWN] + [(f"_{name}_at", name) for name in SHOWN_SCORES]
    newest = ", ".join(
        f"CASE WHEN {keeps[score]} THEN t.{column} ELSE late.{column} END AS {column}" for column, score in columns
    )
    return (
        f"SELECT t.* REPLACE ({newest}) FROM {listing} t LEFT JOIN {late} late ON late.trajectory_id = t.trajectory_id"
    )


ALWAYS_NS = 2**63 - 1
"""The end of what a trajectory's scores may be given in, if no later one has its coordinates."""


def _scored_until(*partition: str) -> str:
    """SQL: when the next trajectory with the same coordinates began; null for one that no score by coordinates means.

    A score without id means the newest trajectory that had begun when it was given. One that was begun inside another
    may have taken over its coordinates, and is meant only if there is no other.
    """
    keys = ", ".join((*_COORDINATES, *partition))
    is_outer = "parent_trajectory_id IS NULL"
    return (
        f"CASE WHEN {is_outer} OR NOT max({is_outer}) OVER (PARTITION BY {keys}) THEN coalesce(min(start_ns) OVER ("
        f"PARTITION BY {keys}, {is_outer} ORDER BY start_ns, trajectory_id DESC "
        f"ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), {ALWAYS_NS}) END"
    )


SCORED_UNTIL = {"_run_until_ns": _scored_until("run"), "_until_ns": _scored_until()}
"""Columns of the listing: among the trajectories of the same run, and among those of all runs."""
IS_ROLLOUT = "_run_until_ns IS NOT NULL"
"""Not a branch: one that was begun inside another with the same coordinates is a part of that rollout."""


def with_id(scores: str, listing: str) -> str:
    """The scores, those without id with that of the trajectory they mean, a row of this listing.

    It is one of the score's own run. A run that has no trajectory in the step was started apart from the rollouts: what
    it scores may be of any run. It never is one that began after the score was given.
    """
    # An equality even for "has no id": by anything else, DuckDB would compare all with all.
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM meant.{name}" for name in _COORDINATES)
    here = " AND ".join(f"s.{name} IS NOT DISTINCT FROM here.{name}" for name in STEP_KEY)
    columns = ", ".join((*_COORDINATES, "trajectory_id", "start_ns", "true AS by_coordinates"))
    return (
        "SELECT s.* EXCLUDE (_run_key) REPLACE (coalesce(s.trajectory_id, meant.trajectory_id) AS trajectory_id) FROM ("
        f"SELECT s.*, here.run_key AS _run_key FROM {scores} s LEFT JOIN ("
        f"SELECT DISTINCT {', '.join(STEP_KEY)}, coalesce(run, '') AS run_key FROM {listing}) here "
        f"ON {here} AND coalesce(s.run, '') = here.run_key) s "
        f"LEFT JOIN (SELECT {columns}, _run_until_ns AS until_ns, coalesce(run, '') AS run_key FROM {listing} "
        f"UNION ALL SELECT {columns}, _until_ns AS until_ns, NULL AS run_key FROM {listing}) meant "
        f"ON (s.trajectory_id IS NULL) = meant.by_coordinates AND {same} "
        "AND s._run_key IS NOT DISTINCT FROM meant.run_key "
        "AND s.time_ns >= meant.start_ns AND s.time_ns < meant.until_ns"
    )


_PLACE = {**{name: name for name in _COORDINATES}, "run": "run", "sample_is_int": "_is_int"}
_WITH_PLACE = f"""
SELECT s.* REPLACE ({", ".join(f"coalesce(t.{theirs}, s.{name}) AS {name}" for name, theirs in _PLACE.items())}),
    t.trajectory_id IS NOT NULL AS _known
FROM ({with_id("_scores", "_rows")}) s LEFT JOIN _rows t ON t.trajectory_id = s.trajectory_id
"""
"""Every score with its trajectory and the coordinates of that, as far as they are known."""

_LATEST = f"""
SELECT trajectory_id, name, newest.value AS value, newest.terms AS terms, newest.ns AS time_ns,
    newest.label AS label, newest.reason AS reason, newest.trained_step AS trained_step, author, op_id
FROM (
    SELECT trajectory_id, name, author, op_id, {_NEWEST} AS newest FROM _scores_with_place WHERE _known
    GROUP BY trajectory_id, name, author, op_id
)
"""

_LABELS = """
SELECT x.trajectory_id, x.op_id, x.name, x.label AS value, x.author, x.time_ns, x.reason,
    t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate
FROM _latest_scores x JOIN _rows t USING (trajectory_id) WHERE x.author IS NOT NULL AND x.label IS NOT NULL
"""
"""What people say now, each about a trajectory or an op of it. A label that was taken back is not there."""


def marked(scores: str) -> str:
    """One row per trajectory: the names of the labels that it, or an op of it, has now; a note is one too."""
    return (
        f"SELECT trajectory_id, list_sort(list(DISTINCT name)) AS labels FROM ("
        f"SELECT trajectory_id, name, {_NEWEST} AS newest FROM {scores} "
        "WHERE author IS NOT NULL GROUP BY trajectory_id, name, author, op_id"
        ") WHERE newest.label IS NOT NULL GROUP BY trajectory_id"
    )


SCORE_VIEWS = {
    "_scores_with_place": _WITH_PLACE,
    "scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place",
    "_latest_scores": _LATEST,
    "latest_scores": "SELECT * FROM _latest_scores",
    "labels": _LABELS,
    "unmatched_scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place WHERE NOT _known",
}
"""Over `_scores`, as they are stored, and `_rows`, the listing without late scores; each after those that it reads."""
