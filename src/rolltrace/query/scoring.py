"""Scores and labels that are given after the run, about a trajectory that an id or coordinates name.

A label is a score with an author. Of the same name, author and place the newest counts; None takes a label back. So
nobody overwrites what another person said, and everything that was ever said is in the history. A note is the label
`note`, whose value is its text.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from rolltrace.errors import ConfigError, NotFoundError, QueryError
from rolltrace.record import Coordinates, clean_text, score_body, target_of

if TYPE_CHECKING:
    from rolltrace.drain import Addressee
    from rolltrace.query.sql_store import SqlStore


_HOMES = """
SELECT project, experiment, nullif(arg_max(coalesce(run, ''), start_ns), '') AS run FROM _listing
WHERE NOT superseded AND {conditions} GROUP BY project, experiment ORDER BY ALL
"""
"""The experiments that have such a trajectory, each with its newest run."""
_AT = """
SELECT trajectory_id FROM _listing WHERE project = ? AND experiment = ? AND run IS NOT DISTINCT FROM ?
    AND step IS NOT DISTINCT FROM ? AND sample_index IS NOT DISTINCT FROM ? AND rollout_n IS NOT DISTINCT FROM ?
    AND validate = ? ORDER BY branch IS TRUE, start_ns DESC, trajectory_id LIMIT 1
"""


def addressee(
    store: SqlStore, target: str | tuple[Any, ...], project: str | None, experiment: str | None, run: str | None
) -> Addressee:
    """Whom a score is about: by an id or its prefix, or by coordinates."""
    from rolltrace.drain import Addressee  # whoever only asks who labels are from does not load it

    if isinstance(target, str):
        try:
            (row,) = store._ask("SELECT * FROM _listing WHERE trajectory_id = ?", [store.full_id(target)])
            where = Coordinates(*(row[name] for name in Coordinates._fields))
            return Addressee(row["project"], row["experiment"], bytes.fromhex(row["trajectory_id"]), where, row["run"])
        except QueryError:
            if project is None or experiment is None:
                raise  # most likely a slip of the hand; an experiment that is named may have it yet
    trajectory_id, where = target_of(target)
    sample = None if where.sample_index is None else str(where.sample_index)
    names = {name: value for name, value in (("project", project), ("experiment", experiment)) if value is not None}
    homes = _find_homes(store, {**where._asdict(), "sample_index": sample, **names}) or _find_homes(store, names)
    if project is not None and experiment is not None:
        homes = homes or [(project, experiment, None)]
    elif len(homes) != 1:
        several = f"it may mean {', '.join(' / '.join(home[:2]) for home in homes)}" if homes else "there is none"
        raise QueryError(
            f"specify which experiment {target!r:.100} belongs to, with project=... and experiment=...: {several}"
        )
    project, experiment, newest_run = homes[0]
    run = newest_run if run is None else run
    if not trajectory_id:
        rows = store._ask(_AT, [project, experiment, run, *where._replace(sample_index=sample)]).rows()
        trajectory_id = bytes.fromhex(rows[0]["trajectory_id"]) if rows else b""
    return Addressee(project, experiment, trajectory_id, where, run)


def _find_homes(store: SqlStore, wanted: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    conditions = " AND ".join(["true", *(f"{name} IS NOT DISTINCT FROM ?" for name in wanted)])
    rows = store._ask(_HOMES.format(conditions=conditions), list(wanted.values()))
    return [(row["project"], row["experiment"], row["run"]) for row in rows]


def newest_score_ns(store: SqlStore, about: Addressee, name: str) -> int:
    """When the newest score of this name was given to the trajectory; 0 for never."""
    if not about.trajectory_id:
        return 0
    sql = "SELECT max(time_ns) AS newest FROM scores WHERE trajectory_id = ? AND name = ?"
    (row,) = store._ask(sql, [about.trajectory_id.hex(), name])
    return row["newest"] or 0


NOTE = "note"
"""The label whose value is a text of any length."""
MAX_NAME_LENGTH = 80
"""Of a label, and of an author."""
MAX_VALUE_LENGTH = 500
MAX_NOTE_LENGTH = 20_000
_NO_LABELS = frozenset({"reward", "advantage", "fate"})
"""Scores that training gives."""

_OP = "SELECT op_id FROM ops WHERE trajectory_id = ? AND op_id = ?"
_TURN = "SELECT op_id FROM ops WHERE trajectory_id = ? AND kind = 'llm' ORDER BY start_ns, op_id LIMIT 1 OFFSET ?"
_GIVEN_BY = "SELECT DISTINCT author FROM labels WHERE trajectory_id = ? AND name = ? ORDER BY author"


def login_name() -> str:
    """Who runs this process: the author of a label that names none."""
    try:
        return clean_text(getpass.getuser())[:MAX_NAME_LENGTH] or "unknown"
    except (OSError, KeyError, ImportError):  # a user id without a name, as in some containers
        return "unknown"


def label_body(
    name: Any, value: Any, *, author: Any = None, op_id: int | None = None, reason: Any = None
) -> dict[str, Any]:
    """A label in the form that is recorded."""
    _check("the name of a label", name, MAX_NAME_LENGTH)
    if name in _NO_LABELS:
        raise ConfigError(f"{name!r} is a score of the training, not a label; use `rolltrace label ID --score`")
    author = login_name() if author is None else author
    _check("an author", author, MAX_NAME_LENGTH)
    if value is not None:
        _check(
            f"the value of {name!r:.60}",
            value,
            MAX_NOTE_LENGTH if name == NOTE else MAX_VALUE_LENGTH,
            lines=name == NOTE,
        )
    if reason is not None:
        _check("the reason", reason, MAX_NOTE_LENGTH, lines=True)
    return {**score_body(value, None, reason, name=name), "author": author, "op_id": op_id}


def _check(what: str, text: Any, longest: int, *, lines: bool = False) -> None:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{what} must be text, not {text!r:.60}")
    if len(text) > longest:
        raise ConfigError(f"{what} has at most {longest:,} characters, not {len(text):,}")
    if not lines and not text.isprintable():
        raise ConfigError(f"{what} is one line of printable characters, not {text!r:.60}")


def write_label(
    store: SqlStore,
    target: str | tuple[Any, ...],
    name: str,
    value: str | None,
    *,
    author: str | None,
    turn: int | None = None,
    op_id: int | None = None,
    reason: str | None = None,
    project: str | None = None,
    experiment: str | None = None,
    run: str | None = None,
) -> None:
    """Save a label, or that it is taken back, about a trajectory that the store has."""
    from rolltrace.drain import write_score

    body = label_body(name, value, author=author, reason=reason)
    about = _trajectory(store, target, project, experiment, run)
    body["op_id"] = _op(store, about, turn, op_id)
    if value is None:
        _check_given(store, about, name, body["author"])
    write_score(store.path, about, name, body, after_ns=newest_score_ns(store, about, name))


def _trajectory(
    store: SqlStore, target: str | tuple[Any, ...], project: str | None, experiment: str | None, run: str | None
) -> Addressee:
    """The trajectory with its id and its coordinates: a label lies with what it is about, and is found by either."""
    if isinstance(target, str):
        return addressee(store, store.full_id(target), None, None, None)
    about = addressee(store, target, project, experiment, run)
    if not about.trajectory_id:
        where = about.coordinates
        raise NotFoundError(
            f"there is no trajectory with step {where.step}, sample {where.sample_index}, rollout {where.rollout_n} "
            f"in {about.project} / {about.experiment}"
        )
    return about


def _op(store: SqlStore, about: Addressee, turn: int | None, op_id: int | None) -> int | None:
    if turn is None and op_id is None:
        return None
    sql, value = (_OP, op_id) if turn is None else (_TURN, turn)
    rows = (
        store._ask(sql, [about.trajectory_id.hex(), value], about.coordinates.step).rows() if (value or 0) >= 0 else []
    )
    if not rows:
        what = f"op {op_id}" if turn is None else f"turn {turn}; turns are model calls, counted from 0"
        raise NotFoundError(f"the trajectory {about.trajectory_id.hex()} has no {what}")
    return int(rows[0]["op_id"])


def _check_given(store: SqlStore, about: Addressee, name: str, author: str) -> None:
    trajectory_id = about.trajectory_id.hex()
    authors = [row["author"] for row in store._ask(_GIVEN_BY, [trajectory_id, name])]
    if author not in authors:
        by = f"; it was given by {', '.join(authors)}: name the author" if authors else ""
        raise NotFoundError(f"{author} gave {trajectory_id} no label {name!r:.60}{by}")
