"""What a score says: a number or a word, the parts it is made of, and why.

One place decides what may be said, for the handle of a trajectory, for `rolltrace.score` and for a person at a store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from rolltrace._guard import pass_on_signals
from rolltrace.errors import ConfigError
from rolltrace.record.schema import Coordinates, clean_text, coordinate, whole

_ID = re.compile(r"[0-9a-fA-F]{32}")
_MAX_TERMS = 10_000
_PLAIN = (bool, int, float, type(None))
_NUMBERS = frozenset({"reward", "advantage"})
"""Scores that are compared, averaged and trained on: text would be none of that, and nobody would see it."""


class Target(NamedTuple):
    """Whom a score is about: a trajectory by its id, or by its coordinates; the other is empty."""

    trajectory_id: bytes
    coordinates: Coordinates


def target_of(target: Any) -> Target:
    """Read a trajectory id, or `(step, sample_index, rollout_n)` with or without `validate`.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(target, str) and _ID.fullmatch(target):
        return Target(bytes.fromhex(target), Coordinates())
    if isinstance(target, tuple) and len(target) in (3, 4) and any(each is not None for each in target[:3]):
        try:
            step, sample_index, rollout_n = (coordinate(each) for each in target[:3])
            where = Coordinates(whole(step), sample_index, whole(rollout_n), bool(target[3:] and target[3]))
            return Target(b"", where)
        except Exception:  # of many kinds: a coordinate may be any object
            pass_on_signals()
    raise ConfigError(
        "a score is about a trajectory id (32 hexadecimal digits), a handle, or a tuple "
        f"(step, sample_index, rollout_n) or (step, sample_index, rollout_n, validate); not {target!r:.100}"
    )


def score_body(
    value: Any, terms: Any = None, reason: Any = None, *, name: Any = "reward", trained_step: Any = None
) -> dict[str, Any]:
    """A score in the form that is recorded.

    Raises:
        ConfigError: the name is no text, the value is neither a number nor text, or text where a number is meant, the
            terms are no mapping, or `trained_step` is no step or given with another score than `fate`.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"a score needs a name such as 'reward', not {name!r:.100}")
    if terms is not None and not isinstance(terms, Mapping):
        raise ConfigError(f"the terms of {name!r:.60} must be a dict such as {{'format': 0.5}}, not {terms!r:.100}")
    parts = islice((terms or {}).items(), _MAX_TERMS)  # a mapping of the user's own may never end
    body: dict[str, Any] = {
        "value": _value(name, value),
        "terms": {clean_text(str(key)): _scalar(item) for key, item in parts},
    }
    if reason is not None:
        body["reason"] = clean_text(str(reason))
    if trained_step is not None:
        body["trained_step"] = _trained_step(name, trained_step)
    return body


def _trained_step(name: str, step: Any) -> int | None:
    if name != "fate":
        raise ConfigError(f"trained_step belongs to the score 'fate', not to {name!r:.60}")
    try:
        return whole(step)
    except Exception:  # of many kinds: a step may be any object
        pass_on_signals()
        raise ConfigError(f"trained_step must be a whole number of 64 bits, not {_shown(step)}") from None


def _value(name: str, value: Any) -> bool | int | float | str | None:
    scalar = _scalar(value)
    if isinstance(scalar, str) and name in _NUMBERS:
        raise ConfigError(
            f"the score {name!r} must be a number, not the text {scalar!r:.100}; write float(...) around it"
        )
    if isinstance(scalar, str):
        return clean_text(scalar)
    if isinstance(scalar, _PLAIN):
        return scalar
    try:
        return float(scalar)  # a Fraction, a Decimal, a long double
    except Exception:  # of many kinds: `__float__` is the caller's code
        pass_on_signals()
        kinds = "a number or None" if name in _NUMBERS else "a number, text or None"
        raise ConfigError(f"the score {name!r:.60} must be {kinds}, not {_shown(value)}") from None


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.100}"
    except Exception:  # it is the caller's code
        pass_on_signals()
        return f"a {type(value).__name__} that cannot be printed"


def _scalar(value: Any) -> Any:
    """What a NumPy or torch scalar holds, on whatever device: who gives a score wants the number, not a marker."""
    if isinstance(value, (str, *_PLAIN)) or not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except Exception:  # several items, most likely
        pass_on_signals()
        return value
