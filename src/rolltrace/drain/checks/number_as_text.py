"""A number that was formatted before it was recorded: it can be neither compared nor plotted any more.

Looked at are the reward, `reward_data` and `metrics`, at any depth. A text counts if all of it is one of these:

- a number with a decimal point or an exponent: "0.75", "-1e-3", ".5"
- one with thousands separated: "1,234", "1,234.5"
- a percentage, "85%", or an amount of money, "$3.50", "-€2"
- a ratio or a share: "1.0 / 2", "3/5"
- "nan", "inf", "-infinity"

Digits alone ("42") do not count: they are as often an id, a label or the text of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding

FLAG = "number_as_text"
_MAX_NAMED = 8
_MAX_LOOKED_AT = 1000
_LONGEST = 40

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
_FORMATTED = re.compile(
    rf"""\s*[+-]?(?:
        \d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+
        | \d{{1,3}}(?:,\d{{3}})+(?:\.\d*)?
        | (?:{_NUMBER})\s*%
        | [$€£¥]\s*(?:{_NUMBER})
        | (?:{_NUMBER})\s*/\s*(?:{_NUMBER})
        | (?i:nan|inf|infinity)
    )\s*""",
    re.VERBOSE,
)


def is_formatted(value: Any) -> bool:
    """Whether a value is a text, and the text a number that somebody formatted."""
    return isinstance(value, str) and len(value) <= _LONGEST and _FORMATTED.fullmatch(value) is not None


def number_as_text(trace: Any, body: Mapping[str, Any]) -> Iterator[Finding]:
    """At most one finding for a transition, with the first such texts by the place where they stand."""
    places = {
        "reward": body.get("reward"),
        "reward_data": trace.get("reward_data") if isinstance(trace, Mapping) else None,
        "metrics": body.get("metrics"),
    }
    texts: dict[str, str] = {}
    waiting = [(name, value) for name, value in reversed(places.items()) if value is not None]
    for _ in range(_MAX_LOOKED_AT):
        if not waiting or len(texts) >= _MAX_NAMED:
            break
        place, value = waiting.pop()
        if is_formatted(value):
            texts[place] = value
        elif isinstance(value, Mapping):
            waiting += [(f"{place}.{key}", item) for key, item in reversed(list(value.items()))]
        elif isinstance(value, list):
            waiting += [(f"{place}[{at}]", item) for at, item in reversed(list(enumerate(value[:_MAX_LOOKED_AT])))]
    if texts:
        yield Finding(FLAG, texts)
