"""What an environment says when it is reset or stepped, in the many shapes that environments have for it.

Understood are gymnasium's tuples of five and the older ones of four, `(observation, info)`, tinker-cookbook's
`StepResult`, `(observation, stop_condition)` and overflow at the first observation, and any dict or object whose fields
have such names. Nothing is changed or kept: the result is only looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rolltrace._guard import pass_on_signals
from rolltrace.capture.transition import plain_number

_NAMES: dict[str, tuple[str, ...]] = {
    "observation": ("next_observation", "observation", "next_obs", "obs", "next_messages", "messages"),
    "reward": ("reward",),
    "episode_done": ("episode_done", "done"),
    "terminated": ("terminated",),
    "truncated": ("truncated",),
    "stop_reason": ("stop_reason",),
    "metrics": ("metrics",),
    "logs": ("logs", "info", "infos"),
    "reward_data": ("reward_data", "reward_terms"),
    "stop_condition": ("next_stop_condition", "stop_condition"),
}
"""Our word -> the names that results have for it, the best first."""
_ALL_NAMES = tuple(name for names in _NAMES.values() for name in names)
_ABSENT = object()
_MAX_FIELDS = 10_000
_OF_A_STEP = ("reward", "episode_done", "terminated", "truncated", "stop_reason")
"""One of these makes it a result and no observation that happens to be a dict."""
_TUPLES = {
    5: ("observation", "reward", "terminated", "truncated", "info"),
    4: ("observation", "reward", "done", "info"),
}
_STOP_METRIC = "stop/"
"""tinker-cookbook says why an episode ended as a metric `stop/REASON` of 1."""
_STOP_METRICS = ("context_overflow", "parse_error", "max_tokens_reached")
"""And its older versions in one of these."""


@dataclass
class Outcome:
    """A result, understood."""

    observation: Any = None
    """What the policy sees next; None if that is not said."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What came with the observation: a stop condition, whatever else a reset said."""
    fields: dict[str, Any] = field(default_factory=dict)
    """reward, episode_done, terminated, truncated, metrics, logs, stop_reason: those that are said."""
    reward_data: Any = None
    rest: Any = None
    """What was not understood, so that it is not lost."""

    @property
    def over(self) -> bool:
        """Whether the episode ends here, as far as it is said."""
        return _true(self.fields.get("episode_done")) or self.fields.get("stop_reason") is not None


def of_step(result: Any) -> Outcome:
    """What `step` said."""
    if type(result) is tuple and len(result) in _TUPLES:
        return _understood(dict(zip(_TUPLES[len(result)], result)))
    fields = _fields(result)
    if not any(name in fields for name in _ALL_NAMES):
        return Outcome(rest=result)
    return _understood(fields)


def of_first(result: Any, *, has_info: bool) -> Outcome:
    """What `reset` (which has an info) or `initial_observation` (which has a stop condition) said."""
    if type(result) is tuple and len(result) == 2 and (not has_info or isinstance(result[1], Mapping)):
        observation, other = result
        if not has_info:
            return Outcome(observation, {"stop_condition": other})
        fields = {"observation": observation, "info": other}
    else:
        fields = _fields(result)
        if not any(name in fields for word in _OF_A_STEP for name in _NAMES[word]):
            return Outcome(result)
    outcome = _understood(fields)
    if outcome.observation is None or outcome.over:  # given in the place of an observation, or the last one
        outcome.fields.setdefault("episode_done", True)
    else:
        step_values = {**outcome.fields, "reward_data": outcome.reward_data, "rest": outcome.rest}
        outcome.beside["reset"] = {word: value for word, value in step_values.items() if value is not None} or None
    return outcome


def _understood(fields: dict[str, Any]) -> Outcome:
    has_logs = "logs" in fields
    values = {word: _take(fields, word) for word in _NAMES}
    info = values["logs"]
    if isinstance(info, Mapping) and info and not has_logs:  # gymnasium has one place for all that is no number
        info = values["logs"] = dict(islice(info.items(), _MAX_FIELDS))
        for word in ("stop_reason", "metrics", "reward_data"):
            if values[word] is None:
                values[word] = _take(info, word)
    if isinstance(values["reward"], Mapping) and values["reward_data"] is None:  # a number for each term
        values["reward_data"] = values.pop("reward")
    ends = [plain_number(values[word]) for word in ("terminated", "truncated") if values[word] is not None]
    if ends and values["episode_done"] is None and all(isinstance(end, bool) for end in ends):
        values["episode_done"] = any(ends)
    if values["stop_reason"] is None:
        values["stop_reason"] = _stop_reason(values)
    return Outcome(
        observation=values.pop("observation"),
        beside={"stop_condition": values.pop("stop_condition")},
        reward_data=values.pop("reward_data"),
        rest=fields or None,
        fields={word: value for word, value in values.items() if value is not None and not _is_empty(value)},
    )


def _take(fields: dict[str, Any], word: str) -> Any:
    for name in _NAMES[word]:
        if name in fields:
            return fields.pop(name)
    return None


def _stop_reason(values: dict[str, Any]) -> str | None:
    metrics = values["metrics"]
    if isinstance(metrics, Mapping):
        for name, value in islice(metrics.items(), _MAX_FIELDS):
            if isinstance(name, str) and name.startswith(_STOP_METRIC) and _true(value):
                return name[len(_STOP_METRIC) :]
        if values["episode_done"] is None or _true(values["episode_done"]):
            for name in _STOP_METRICS:
                if _true(metrics.get(name)):
                    return name
    return "truncated" if _true(values["truncated"]) else None


def _true(value: Any) -> bool:
    """Of one number; an array, as vector environments have, is neither true nor false."""
    number = plain_number(value)
    return isinstance(number, int | float) and number != 0


def _is_empty(value: Any) -> bool:
    return isinstance(value, Mapping) and not value


def _fields(result: Any) -> dict[str, Any]:
    """The fields of a dict or object, and those of our names that it computes; empty if it has none."""
    kind: Any = type(result)
    if isinstance(result, Mapping):
        first = islice(iter(result), _MAX_FIELDS)  # it may never end
        return {name: result[name] for name in first if isinstance(name, str)}
    names: Iterable[str] = ()
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(kind)]
    elif issubclass(kind, tuple):
        names = getattr(kind, "_fields", ())
    elif hasattr(result, "__dict__"):
        names = [name for name in vars(result) if not name.startswith("_")]
    values = {name: _get(result, name) for name in dict.fromkeys([*names, *_ALL_NAMES])}
    return {name: value for name, value in values.items() if value is not _ABSENT}


def _get(result: Any, name: str) -> Any:
    """An attribute that is a value, and can be had."""
    try:
        value = getattr(result, name, _ABSENT)
    except Exception:  # a property that fails
        pass_on_signals()
        return _ABSENT
    return _ABSENT if callable(value) else value
