"""Why an answer is empty: which store was asked, and which of the values asked for it does not have.

A value that exists nowhere in the store is most likely misspelt, so the nearest is named, and what there is, or from
where to where. Where all values exist, but not together, only the store is named.

The same goes for the NAME of `term.NAME`, `tag.NAME` and the like, and there even if the answer is not empty:
`not term.correkt > 0` finds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace._address import address_in
from rolltrace.flags import ALWAYS_ON, FLAGS
from rolltrace.query.filter_fields import FIELDS, Field
from rolltrace.record import OP_KINDS

Ask = Callable[[str, Sequence[Any]], Any]
"""Gives the answer to a statement, as `Result`."""

MOST_NAMED = 8
"""How many values are named."""
_MOST_COMPARED = 1000
"""Among how many the nearest is looked for."""
_POSSIBLE = {
    "status": ("ok", "error", "cancelled", "running", "interrupted"),
    "kind": OP_KINDS,
    "flag": tuple(flag.name for flag in (*FLAGS, *ALWAYS_ON)),
}
"""Values that a field may have, in whatever store."""
_OTHER_WORDS = {
    "status": {
        "failed": "error", "failure": "error", "fail": "error", "crashed": "error", "exception": "error",
        "success": "ok", "succeeded": "ok", "completed": "ok", "complete": "ok", "done": "ok", "finished": "ok",
        "aborted": "cancelled", "killed": "interrupted", "active": "running", "live": "running",
    },
}  # fmt: skip
"""What other tools call a value; letter by letter, 'failed' is nearer to 'cancelled' than to 'error'."""
_CALLED = {"sample_index": "sample", "rollout_n": "rollout"}
_NAMES = {
    "tag": "SELECT unnest(json_keys(tags)) AS value FROM _listing WHERE tags IS NOT NULL",
    "score": "SELECT name AS value FROM scores",
    "term": "SELECT unnest(map_keys(terms)) AS value FROM _listing WHERE terms IS NOT NULL",
    "label": "SELECT name AS value FROM scores WHERE label IS NOT NULL",
    "author": "SELECT name AS value FROM scores WHERE label IS NOT NULL AND author IS NOT NULL",
    "flag": "SELECT unnest(flags) AS value FROM _listing",
}
"""Where the NAME of each field with one occurs."""


class Asked(NamedTuple):
    """A value that a field was to have."""

    field: str
    value: Any


def explain(ask: Ask, store: Path, what: str, asked: Sequence[Asked], *, filtered: bool) -> str:
    """One line for an empty answer.

    Args:
        ask: Asks the store.
        store: Its folder.
        what: What was asked for: trajectories, groups, ...
        asked: The values that were asked for.
        filtered: There were conditions.
    """
    line = f"no {what} in the store {address_in(store).url!r}"
    if not filtered:
        return line
    return f"{line} meet the filter" + "".join(f"; {reason}" for reason in missing_values(ask, asked))


def missing_values(ask: Ask, asked: Sequence[Asked]) -> list[str]:
    """What to say of each value that the store does not have."""
    return list(dict.fromkeys(filter(None, (_missing(ask, each) for each in asked))))


def unknown_name(ask: Ask, field: str) -> str | None:
    """What to say of the NAME of a field such as `term.NAME` that occurs nowhere in the store; None if it does."""
    kind, _, name = field.partition(".")
    possible = _POSSIBLE.get(kind, ())
    if kind not in _NAMES or not name or name in possible:
        return None
    if _exists(ask, (_NAMES[kind], []), name):
        return None
    names = [row["value"] for row in ask(f"SELECT DISTINCT value FROM ({_NAMES[kind]}) LIMIT {_MOST_COMPARED}", [])]
    return f"nothing in the store has the {kind} {name!r}; {suggest(name, names, possible) or f'there are no {kind}s'}"


def suggest(wanted: str, names: Sequence[str], possible: Sequence[str] = (), field: str = "") -> str:
    """`did you mean 'correct'? there are: 'correct', 'format'`; empty if there are none.

    Args:
        wanted: What was asked for.
        names: What there is.
        possible: What could be there, and may have been meant too.
        field: What it is a value of.
    """
    near: list[str] = []
    if wanted not in possible:
        lower = {each.casefold(): each for each in (*possible, *names)}
        other = _OTHER_WORDS.get(field, {}).get(wanted.casefold())
        near = [other] if other else [lower[each] for each in get_close_matches(wanted.casefold(), lower, 1, 0.5)]
    hint = f"did you mean {near[0]!r}? " if near else ""
    if not names:
        return hint
    named = ", ".join(map(repr, sorted(names, key=_by_number)[:MOST_NAMED]))
    more = ", ..." if len(names) > MOST_NAMED else ""
    return f"{hint}there {'is' if len(names) == 1 else 'are'}: {named}{more}"


def _missing(ask: Ask, asked: Asked) -> str | None:
    """What to say of a value that the store does not have; None if it has it, or if the field has no values to name."""
    name, _, key = asked.field.partition(".")
    field = FIELDS.get(asked.field) or FIELDS.get(f"{name}.NAME")
    source = None if field is None else _source(field, key)
    if field is None or source is None:
        return None
    called = _CALLED.get(asked.field, asked.field)
    if field.type == "number":
        return _out_of_range(ask, source, called, asked.value)
    sql, parameters = source
    rows = ask(
        f"SELECT DISTINCT value FROM ({sql}) WHERE value IS NOT NULL ORDER BY value LIMIT {_MOST_COMPARED}", parameters
    )
    values = [str(row["value"]) for row in rows]
    wanted = _text(asked.value)
    if wanted in values or (len(values) == _MOST_COMPARED and _exists(ask, source, wanted)):
        return None
    hint = suggest(wanted, values, _POSSIBLE.get(asked.field, ()), asked.field)
    return f"there is no {called} {wanted!r}; {hint}{'' if values else f'nothing has {_a(called)}'}"


def _out_of_range(ask: Ask, source: tuple[str, list[Any]], called: str, wanted: Any) -> str | None:
    sql, parameters = source
    if _exists(ask, source, wanted):
        return None
    (row,) = ask(
        f"SELECT min(value) AS least, max(value) AS most FROM ({sql}) WHERE NOT isnan(value::DOUBLE)", parameters
    )
    if row["least"] is None:
        return f"nothing has {_a(called)}"
    least, most = (f"{row[name]:.15g}" for name in ("least", "most"))
    return f"there is no {called} {wanted}; there {f'is only {least}' if least == most else f'are {least} to {most}'}"


def _exists(ask: Ask, source: tuple[str, list[Any]], wanted: Any) -> bool:
    sql, parameters = source
    return len(ask(f"SELECT 1 FROM ({sql}) WHERE value = ? LIMIT 1", [*parameters, wanted])) > 0


def _source(field: Field, key: str) -> tuple[str, list[Any]] | None:
    """A SELECT of all `value`s that a field has, and its parameters; None if there would be too many to name."""
    if field.type == "bool" or field.name in ("trajectory_id", "error", "fate_reason", "text"):
        return None
    if field.name == "flag":
        return "SELECT unnest(flags) AS value FROM _listing", []
    if field.name == "label":
        return "SELECT unnest(labels) AS value FROM _listing", []
    if field.name == "author":
        return "SELECT author AS value FROM latest_scores", []
    if field.name == "tool":
        return f"SELECT {field.sql} AS value FROM ops s WHERE s.kind = 'tool'", []
    if field.name in ("op", "kind"):
        return f"SELECT {field.sql} AS value FROM ops s", []
    if field.type == "tags":
        return f"SELECT {field.sql} AS value FROM _listing t", ["/" + key.replace("~", "~0").replace("/", "~1")]
    if field.sql.startswith("x."):
        return f"SELECT {field.sql} AS value FROM latest_scores x WHERE x.name = ?", [key]
    if field.sql.startswith("g."):
        return f"SELECT {field.sql} AS value FROM groups g", []
    table = "_places" if field.name in ("project", "experiment", "step") else "_listing"
    return f"SELECT {field.sql} AS value FROM {table} t", []


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_number(text: str) -> tuple[int, int, str]:
    """Numbers first, in their order."""
    digits = text.removeprefix("-")
    return (0, int(text), "") if digits.isascii() and digits.isdigit() and len(digits) < 19 else (1, 0, text)
