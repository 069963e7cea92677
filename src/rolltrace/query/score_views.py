"""Which scores a trajectory has, as SQL. Of a name the newest counts: by time, then by writer.

A score that was given by coordinates has the id of its trajectory (`tables.reduce`). A label is a score with an author.
Each author has a last word of their own on a trajectory and on each of its ops: see `query.labelling`.
"""

from __future__ import annotations

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

SCORE_VIEWS = {
    "_scores_with_place": _WITH_PLACE,
    "scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place",
    "_latest_scores": _LATEST,
    "latest_scores": "SELECT * FROM _latest_scores",
    "labels": _LABELS,
    "unmatched_scores": "SELECT * EXCLUDE (_known) FROM _scores_with_place WHERE NOT _known",
}
"""Over `_scores`, as they are stored, and `_listing`."""
