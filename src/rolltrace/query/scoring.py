"""Give a score to a trajectory of a store, without tracing: for notebooks and people, after the run.

The score goes through a journal of its own, like any other record: on disk when the call returns, read by everybody
from that moment, and drained at once unless a drainer is at work, which then takes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace.errors import QueryError, StoreError
from rolltrace.journal import JournalWriter
from rolltrace.query.result import Result
from rolltrace.record import Coordinates, Event, encode_record, target_of

Ask = Callable[[str, list[Any]], Result]


class Addressee(NamedTuple):
    """Whom a score is about, and to which run it belongs."""

    project: str
    experiment: str
    trajectory_id: bytes
    coordinates: Coordinates


def addressee_of_row(row: dict[str, Any]) -> Addressee:
    """That of a row of the listing."""
    where = Coordinates(*(row[name] for name in Coordinates._fields))
    return Addressee(row["project"], row["experiment"], bytes.fromhex(row["trajectory_id"]), where)


def addressee_of(ask: Ask, target: Any, project: str | None, experiment: str | None) -> Addressee:
    """That of coordinates, or of an id that the store does not know: then project and experiment are given.

    Raises:
        ConfigError: the target is neither.
        QueryError: it is not plain which run is meant.
    """
    trajectory_id, where = target_of(target)
    if project is not None and experiment is not None:
        return Addressee(project, experiment, trajectory_id, where)
    found = _runs(ask, where, project, experiment) or _runs(ask, None, project, experiment)
    if len(found) != 1:
        several = f"it may mean {', '.join(' / '.join(run) for run in found)}" if found else "the store has no such run"
        raise QueryError(f"say to which run {target!r:.100} belongs, with project=... and experiment=...: {several}")
    return Addressee(*found[0], trajectory_id, where)


def _runs(ask: Ask, where: Coordinates | None, project: str | None, experiment: str | None) -> list[tuple[str, str]]:
    """The runs that have a trajectory at these coordinates, or any."""
    sample = None if where is None or where.sample_index is None else str(where.sample_index)
    wanted = {} if where is None else {**where._asdict(), "sample_index": sample}
    given = {name: value for name, value in (("project", project), ("experiment", experiment)) if value is not None}
    conditions = " AND ".join(["true", *(f"{name} IS NOT DISTINCT FROM ?" for name in (*wanted, *given))])
    rows = ask(
        f"SELECT DISTINCT project, experiment FROM _listing WHERE {conditions} ORDER BY ALL",
        [*wanted.values(), *given.values()],
    )
    return [(row["project"], row["experiment"]) for row in rows]


def newest_score_ns(ask: Ask, about: Addressee, name: str) -> int:
    """When the newest score of this name was given to the trajectory; 0 for never."""
    if not about.trajectory_id:
        return 0
    sql = "SELECT max(time_ns) AS newest FROM scores WHERE trajectory_id = ? AND name = ?"
    (row,) = ask(sql, [about.trajectory_id.hex(), name]).rows()
    return row["newest"] or 0


def write_score(store: Path, about: Addressee, name: str, body: dict[str, Any], *, after_ns: int = 0) -> None:
    """Save one score. It is newer than one of `after_ns`, though the clock that gave that time may have been ahead.

    Raises:
        StoreError: the store cannot be written.
    """
    writer = JournalWriter(store, {"project": about.project[:200], "experiment": about.experiment[:200]})
    coordinates, said = msgspec.Raw(encode_record(about.coordinates)), msgspec.msgpack.encode({"name": name, **body})
    record = Event(about.trajectory_id, coordinates, "score", max(time.time_ns(), after_ns + 1), 0, msgspec.Raw(said))
    saved = writer.append(encode_record(record), about.coordinates.step)
    writer.close()
    if not saved:
        raise StoreError(f"the score could not be saved in {str(store)!r}: {', '.join(writer.losses)}")
    from rolltrace.drain import Drainer  # not needed by those who only read

    drainer = Drainer(store)
    with drainer.working() as alone:
        if alone:
            for path in writer.sealed_files():
                drainer.drain_one(path)
