"""Numbers that a writer made text, as `json.dumps(..., default=str)` does with those of NumPy, torch and `decimal`.

Only what such a writer makes is undone. Text that a person formatted ("85%", "1.0 / 2") stays, and is flagged where a
number should be.
"""

from __future__ import annotations

import re
from typing import Any

_DIGITS = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WRAPPED = re.compile(r"(?:tensor|np\.\w+|numpy\.\w+|Decimal)\(['\"]?([^,()'\"]+)['\"]?(?:,[^()]*)?\)")
"""How torch, NumPy and decimals write themselves: tensor(0.5000, device='cuda:0'), np.float32(0.5)."""
_BOOLS = {"True": True, "False": False}
_LONGEST = 60


def number_again(value: Any, *, digits: bool = True) -> Any:
    """The number that a text was, or the value itself.

    Args:
        value: Whatever a file holds.
        digits: Whether digits alone count: where ids and answers may stand, "42" is as likely text.
    """
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        return value
    text = value.strip()
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is not None:
        text, digits = wrapped[1].strip(), True
    if text in _BOOLS:
        return _BOOLS[text]
    if _DECIMAL.fullmatch(text):
        return float(text)
    return int(text) if digits and _DIGITS.fullmatch(text) else value


def numbers_again(value: Any, *, digits: bool = True) -> Any:
    """As `number_again`, for all that a dict or a list holds."""
    if isinstance(value, dict):
        return {key: numbers_again(item, digits=digits) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_again(item, digits=digits) for item in value]
    return number_again(value, digits=digits)
