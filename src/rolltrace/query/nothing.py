"""Why an answer is empty: which store was asked, and which of the values asked for it does not have.

A value that exists nowhere in the store is most likely misspelt, so the nearest is named, and what there is, or from
where to where. Where all values exist, but not together, only the store is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

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
_CALLED = {"sample_index": "sample", "rollout_n": "rollout"}


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
    line = f"no {what} in the store {str(store)!r}"
    if not filtered:
        return line
    reasons = list(dict.fromkeys(filter(None, (_missing(ask, each) for each in asked))))
    return f"{line} meet the filter" + "".join(f"; {reason}" for reason in reasons)


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
    possible = _POSSIBLE.get(asked.field, ())
    near = [] if wanted in possible else get_close_matches(wanted, [*values, *possible], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if not values:
        return f"there is no {called} {wanted!r}; {hint}nothing has a {called}"
    named = ", ".join(map(repr, sorted(values, key=_by_number)[:MOST_NAMED])) + (
        ", ..." if len(values) > MOST_NAMED else ""
    )
    return f"there is no {called} {wanted!r}; {hint}there {'is' if len(values) == 1 else 'are'}: {named}"


def _out_of_range(ask: Ask, source: tuple[str, list[Any]], called: str, wanted: Any) -> str | None:
    sql, parameters = source
    if _exists(ask, source, wanted):
        return None
    (row,) = ask(
        f"SELECT min(value) AS least, max(value) AS most FROM ({sql}) WHERE NOT isnan(value::DOUBLE)", parameters
    )
    if row["least"] is None:
        return f"nothing has a {called}"
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
        return f"SELECT {field.sql} AS value FROM spans s WHERE s.kind = 'tool'", []
    if field.name in ("op", "kind"):
        return f"SELECT {field.sql} AS value FROM spans s", []
    if field.type == "tags":
        return f"SELECT {field.sql} AS value FROM _listing t", ["/" + key.replace("~", "~0").replace("/", "~1")]
    if field.sql.startswith("x."):
        return f"SELECT {field.sql} AS value FROM latest_scores x WHERE x.name = ?", [key]
    if field.sql.startswith("g."):
        return f"SELECT {field.sql} AS value FROM groups g", []
    return f"SELECT {field.sql} AS value FROM _listing t", []


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_number(text: str) -> tuple[int, int, str]:
    """Numbers first, in their order."""
    digits = text.removeprefix("-")
    return (0, int(text), "") if digits.isascii() and digits.isdigit() and len(digits) < 19 else (1, 0, text)
