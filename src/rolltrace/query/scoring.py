"""Whom a score is about that somebody gives after the run, by an id or by coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.drain import Addressee
from rolltrace.errors import QueryError
from rolltrace.query.result import Result
from rolltrace.record import Coordinates, target_of

if TYPE_CHECKING:
    from rolltrace.query.sql_store import SqlStore

Ask = Callable[[str, list[Any]], Result]


def addressee(
    store: SqlStore, target: str | tuple[Any, ...], project: str | None, experiment: str | None, run: str | None
) -> Addressee:
    """Whom a score is about: by an id or its prefix, or by coordinates.

    Raises:
        ConfigError: the target is neither.
        QueryError: no trajectory has this id, several begin with it, or it is not plain which experiment is meant.
    """
    if isinstance(target, str):
        try:
            rows = store._ask("SELECT * FROM _listing WHERE trajectory_id = ?", [store.full_id(target)])
            return _addressee_of_row(*rows)
        except QueryError:
            if project is None or experiment is None:
                raise  # most likely a slip of the hand; an experiment that is named may have it yet
    return _addressee_of(store._ask, target, project, experiment, run)


def _addressee_of_row(row: dict[str, Any]) -> Addressee:
    where = Coordinates(*(row[name] for name in Coordinates._fields))
    return Addressee(row["project"], row["experiment"], bytes.fromhex(row["trajectory_id"]), where, row["run"])


def _addressee_of(ask: Ask, target: Any, project: str | None, experiment: str | None, run: str | None) -> Addressee:
    """That of coordinates, or of an id that the store does not know: then project and experiment are given."""
    trajectory_id, where = target_of(target)
    homes = _homes(ask, where, project, experiment) or _homes(ask, None, project, experiment)
    if project is not None and experiment is not None:
        homes = homes or [_Home(project, experiment, None)]
    elif len(homes) != 1:
        several = f"it may mean {', '.join(' / '.join(each[:2]) for each in homes)}" if homes else "there is none"
        raise QueryError(
            f"specify which experiment {target!r:.100} belongs to, with project=... and experiment=...: {several}"
        )
    home = homes[0] if run is None else homes[0]._replace(run=run)
    return Addressee(home.project, home.experiment, trajectory_id or _newest_at(ask, home, where), where, home.run)


class _Home(NamedTuple):
    project: str
    experiment: str
    run: str | None


def _homes(ask: Ask, where: Coordinates | None, project: str | None, experiment: str | None) -> list[_Home]:
    """The experiments that have a trajectory at these coordinates, or any, each with its newest run."""
    sample = None if where is None or where.sample_index is None else str(where.sample_index)
    wanted = {} if where is None else {**where._asdict(), "sample_index": sample}
    names = {name: value for name, value in (("project", project), ("experiment", experiment)) if value is not None}
    conditions = " AND ".join(["true", *(f"{name} IS NOT DISTINCT FROM ?" for name in (*wanted, *names))])
    rows = ask(
        "SELECT project, experiment, arg_max(coalesce(run, ''), start_ns) AS run FROM _listing "
        f"WHERE NOT superseded AND {conditions} GROUP BY project, experiment ORDER BY ALL",
        [*wanted.values(), *names.values()],
    )
    return [_Home(row["project"], row["experiment"], row["run"] or None) for row in rows]


_AT = """
SELECT trajectory_id FROM _listing WHERE project = ? AND experiment = ? AND run IS NOT DISTINCT FROM ?
    AND step IS NOT DISTINCT FROM ? AND sample_index IS NOT DISTINCT FROM ? AND rollout_n IS NOT DISTINCT FROM ?
    AND validate = ? ORDER BY branch IS TRUE, start_ns DESC, trajectory_id LIMIT 1
"""


def _newest_at(ask: Ask, home: _Home, where: Coordinates) -> bytes:
    """The id of the newest trajectory at these coordinates; empty if there is none."""
    sample = None if where.sample_index is None else str(where.sample_index)
    rows = ask(_AT, [*home, *where._replace(sample_index=sample)]).rows()
    return bytes.fromhex(rows[0]["trajectory_id"]) if rows else b""


def newest_score_ns(ask: Ask, about: Addressee, name: str) -> int:
    """When the newest score of this name was given to the trajectory; 0 for never."""
    if not about.trajectory_id:
        return 0
    sql = "SELECT max(time_ns) AS newest FROM scores WHERE trajectory_id = ? AND name = ?"
    (row,) = ask(sql, [about.trajectory_id.hex(), name]).rows()
    return row["newest"] or 0
