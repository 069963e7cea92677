"""Labels and notes: what people say about a trajectory or a turn of it. They are scores with an author.

Of the same name, author and place the newest counts; None takes a label back. So nobody overwrites what another person
said, and everything that was ever said is in the history. A note is the label `note`, whose value is its text.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

from rolltrace.errors import ConfigError, NotFoundError
from rolltrace.record import clean_text, score_body

if TYPE_CHECKING:
    from rolltrace.drain import Addressee
    from rolltrace.query.sql_store import SqlStore

NOTE = "note"
"""The label whose value is a text of any length."""
GIVEN = "yes"
"""The value of a label that has no other."""
LONGEST_NAME = 80
"""Of a label, and of an author."""
LONGEST_VALUE = 500
LONGEST_NOTE = 20_000
_NO_LABELS = frozenset({"reward", "advantage", "fate"})
"""Scores that training gives."""

_OP = "SELECT op_id FROM ops WHERE trajectory_id = ? AND op_id = ?"
_TURN = "SELECT op_id FROM ops WHERE trajectory_id = ? AND kind = 'llm' ORDER BY start_ns, op_id LIMIT 1 OFFSET ?"
_GIVEN_BY = "SELECT DISTINCT author FROM labels WHERE trajectory_id = ? AND name = ? ORDER BY author"


def login_name() -> str:
    """Who runs this process: the author of a label that names none."""
    try:
        return clean_text(getpass.getuser())[:LONGEST_NAME] or "unknown"
    except (OSError, KeyError, ImportError):  # a user id without a name, as in some containers
        return "unknown"


def label_body(
    name: Any, value: Any, *, author: Any = None, op_id: int | None = None, reason: Any = None
) -> dict[str, Any]:
    """A label in the form that is recorded.

    Raises:
        ConfigError: name, value or author make no sense.
    """
    _check("the name of a label", name, LONGEST_NAME)
    if name in _NO_LABELS:
        raise ConfigError(f"{name!r} is a score of the training, not a label; use `rolltrace score`")
    author = login_name() if author is None else author
    _check("an author", author, LONGEST_NAME)
    if value is not None:
        _check(f"the value of {name!r:.60}", value, LONGEST_NOTE if name == NOTE else LONGEST_VALUE, lines=name == NOTE)
    if reason is not None:
        _check("the reason", reason, LONGEST_NOTE, lines=True)
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
    """Save a label, or that it is taken back, about a trajectory that the store has.

    Raises:
        ConfigError: name, value or author make no sense.
        NotFoundError: there is no such trajectory, turn or op; or nothing to take back.
        QueryError: several trajectories may be meant.
        StoreError: the store cannot be written.
    """
    from rolltrace.drain import write_score  # who only looks does not load it
    from rolltrace.query.scoring import newest_score_ns

    body = label_body(name, value, author=author, reason=reason)
    about = _trajectory(store, target, project, experiment, run)
    body["op_id"] = _op(store, about, turn, op_id)
    if value is None:
        _check_given(store, about, name, body["author"])
    write_score(store.path, about, name, body, after_ns=newest_score_ns(store._ask, about, name))


def _trajectory(
    store: SqlStore, target: str | tuple[Any, ...], project: str | None, experiment: str | None, run: str | None
) -> Addressee:
    """The trajectory with its id and its coordinates: a label lies with what it is about, and is found by either."""
    from rolltrace.query.scoring import addressee

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
