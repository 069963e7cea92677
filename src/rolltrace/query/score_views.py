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


_LAST_TRY = "ORDER BY parent_trajectory_id IS NOT NULL, start_ns DESC, trajectory_id"
IS_MEANT = f"row_number() OVER (PARTITION BY {', '.join(_COORDINATES)}, run {_LAST_TRY}) = 1"
"""Whether a trajectory is the one that a score without id means, by run and coordinates: of a rollout that was tried
again, the last try; and not one that was begun inside another, whose coordinates it may have taken over."""
IS_NEWEST = f"row_number() OVER (PARTITION BY {', '.join(_COORDINATES)} {_LAST_TRY}) = 1"
"""The same, whatever its run."""


def with_id(scores: str, listing: str) -> str:
    """The scores, those without id with that of the trajectory they mean, a row of this listing.

    It is one of the score's own run. A run that has no trajectory in the step was started apart from the rollouts: what
    it scores is the newest one at the coordinates.
    """
    # An equality even for "has no id": by anything else, DuckDB would compare all with all.
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM meant.{name}" for name in _COORDINATES)
    here = " AND ".join(f"s.{name} IS NOT DISTINCT FROM here.{name}" for name in STEP_KEY)
    return (
        "SELECT s.* EXCLUDE (_run_key) REPLACE (coalesce(s.trajectory_id, meant.trajectory_id) AS trajectory_id) FROM ("
        f"SELECT s.*, here.run_key AS _run_key FROM {scores} s LEFT JOIN ("
        f"SELECT DISTINCT {', '.join(STEP_KEY)}, coalesce(run, '') AS run_key FROM {listing}) here "
        f"ON {here} AND coalesce(s.run, '') = here.run_key) s "
        f"LEFT JOIN (SELECT *, coalesce(run, '') AS run_key FROM {listing} WHERE _is_meant "
        f"UNION ALL SELECT *, NULL AS run_key FROM {listing} WHERE _is_newest) meant "
        f"ON (s.trajectory_id IS NULL) = meant._is_meant AND {same} AND s._run_key IS NOT DISTINCT FROM meant.run_key"
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
