"""Finished trajectories, for whoever passes them on: how much there is of each, and all of it in batches.

`survey` reads small columns only and gives an Arrow table, because a store may hold millions. `read` gives whole
trajectories, some at a time, with few questions to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from rolltrace.query.dataset import Store
from rolltrace.query.filters import compile_where
from rolltrace.query.scope import choose_runs
from rolltrace.query.trajectory import Trajectory, read_whole, summaries

_SURVEY = """
SELECT
    t.trajectory_id, t.project, t.experiment, t.step, t.worker,
    coalesce(t.records, 0) AS records, greatest(coalesce(t.open_ops, 0), 0) AS open,
    greatest(t.start_ns, t.end_ns, t.last_ns) AS last_ns,
    coalesce(t.scored_ns, 0) AS scored_ns,
    coalesce({wanted}, false) AS wanted
FROM _listing t
WHERE t.status <> 'running' AND {which}
ORDER BY t.project, t.experiment, t.step NULLS LAST, t.trajectory_id
"""
_SIZES = """
SELECT s.trajectory_id, sum(
    coalesce(strlen(payload), 0) + coalesce(strlen(text), 0) + 6 * coalesce(len(tokens), 0)
    + 12 * coalesce(len(logprobs), 0)
    + 2 * coalesce(len(response_mask), 0)
)::BIGINT AS bytes
FROM _spans s WHERE s.trajectory_id IN (SELECT unnest(?)) GROUP BY s.trajectory_id
"""
"""About what they take as JSON, token lists included: there is no other size that fits every vendor."""


def survey(
    store: Store, *, places: Sequence[tuple[str, str]] | None = None, where: str | None = None, **conditions: Any
) -> pa.Table:
    """One row per finished trajectory, by project, experiment and step.

    Columns: trajectory_id, project, experiment, step, worker; `records`, how many ops, transitions and notes it has so
    far; `open`, how many of its ops still run; `last_ns`, when the last of these was; `scored_ns`, when the newest
    score was given, 0 for never; `wanted`, whether it meets `where`. A filter means of each step the newest run, unless
    it asks about runs itself; without one, all are wanted.

    Args:
        store: The store.
        places: Only these experiments: pairs of project and experiment; all if not given.
        where: A filter (docs/reference/filter.md).
        **conditions: Columns of `trajectories` and the value they must have; None for any. `since_ns` and
            `since_step` are the earliest end and step.
    """
    predicate = compile_where(where)
    runs = choose_runs("t", None, all_runs=where is None, filtered_by=predicate.fields)
    which, values = ["true"], list[Any]()
    if places is not None:
        which.append(f"(t.project, t.experiment) IN ({', '.join(['(?, ?)'] * len(places))})" if places else "false")
        values += [name for place in places for name in place]
    tests = {"since_ns": "coalesce(t.end_ns, t.start_ns) >= ?", "since_step": "t.step >= ?"}
    for column, value in conditions.items():
        if value is not None:
            which.append(tests.get(column, f"t.{column} = ?"))
            values.append(value)
    sql = _SURVEY.format(wanted=f"({predicate.sql}) AND {runs.sql}", which=" AND ".join(which))
    return store._ask(sql, [*predicate.parameters, *values]).arrow()


def sizes(store: Store, trajectory_ids: Sequence[str]) -> dict[str, int]:
    """About how many bytes each of these takes as JSON."""
    table = store._ask(_SIZES, [list(trajectory_ids)]).arrow()
    return dict(zip(table["trajectory_id"].to_pylist(), table["bytes"].to_pylist()))


def read_finished(
    store: Store,
    trajectory_ids: Sequence[str],
    step: int | None,
    on_fault: Callable[[str, Exception], None] | None = None,
) -> Iterator[Trajectory]:
    """These trajectories, all of one step, whole. One that is not there any more is left out; `on_fault` as in
    `read_whole`."""
    for each in read_whole(store, summaries(store, trajectory_ids, step), step, on_fault=on_fault):
        yield each.trajectory
