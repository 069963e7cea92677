"""Arguments of a question, checked, as pieces of SQL: values become parameters, names are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from rolltrace.errors import QueryError
from rolltrace.record import SampleIndex, coordinate


def conditions_of(of: str = "t", *, sample_index: SampleIndex | None = None, **wanted: Any) -> tuple[str, list[Any]]:
    conditions, values = ["true"], []
    if sample_index is not None:
        wanted["sample_index"] = str(coordinate(sample_index))
    for column, value in wanted.items():
        if value is not None:
            conditions.append(f"{of}.{column} = ?")
            values.append(whole(column, value) if column in ("step", "rollout_n") else value)
    return " AND ".join(conditions), values


def whole(name: str, value: Any) -> int:
    number = coordinate(value)
    if not isinstance(number, int) or (name in ("limit", "offset", "last") and number < 0):
        raise QueryError(f"{name} must be a whole number, not {value!r}")
    return number


def numbers_of_rollouts(k: int | Sequence[int] | None) -> list[int]:
    numbers = [] if k is None else list(k) if isinstance(k, Sequence) and not isinstance(k, str) else [k]
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in numbers):
        raise QueryError(f"k must be a number of rollouts, or several such as [1, 4, 8]; not {k!r:.60}")
    return list(dict.fromkeys(numbers))


def column_of(name: str, columns: Sequence[str], headers: Mapping[str, str], cannot: str) -> str:
    """The column of this name or header; `cannot` begins the message if there is none."""
    column = headers.get(name, name) if name not in columns else name
    if column not in columns:
        public = [each for each in columns if not each.startswith("_")]
        near = get_close_matches(column, [*public, *headers], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(public)}"
        raise QueryError(f"{cannot} {name!r}; {hint}")
    return column


def sorted_by(text: str) -> list[tuple[str, bool]]:
    """The names in `-reward,step`, each with whether it is turned around."""
    words = [word.strip() for word in text.split(",")]
    return [(word.removeprefix("-").strip(), word.startswith("-")) for word in words]


def order_of(
    text: str, what: str, columns: Sequence[str], last: Sequence[str], headers: Mapping[str, str] = MappingProxyType({})
) -> str:
    terms = []
    for name, turned in sorted_by(text):
        column = column_of(name, columns, headers, f"{what} cannot be sorted by")
        direction = "DESC" if turned else "ASC"
        if column == "sample_index":  # numbers as numbers, and before other texts
            terms.append(f"try_cast(t.sample_index AS BIGINT) {direction} NULLS LAST")
        terms.append(f't."{column}" {direction} NULLS LAST')
    return ", ".join([*terms, *(f"t.{column}" for column in last)])
