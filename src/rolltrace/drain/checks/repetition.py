"""repetition: a response repeats the same passage over and over.

A loop is a stretch in which every token is the one that stood `period` tokens before. It is looked for at a few places:
the tokens there are searched for just before, and if they are found, the stretch around them is measured. All of that
is searching and comparing in C, and linear. Code, tables and prose repeat words and lines, but not back to back to the
letter for long.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from rolltrace.drain.checks.check import Finding, OpFacts, raw

_MIN_TOKENS = 64
_MIN_CHARS = 200
_MAX_PERIOD = 4096
_PROBES = 8
"""A loop in half of the response covers several of eight places, with most of itself before the last of them."""


class Loop(NamedTuple):
    """A stretch of a response that repeats itself."""

    start: int
    length: int
    period: int


def repetition(op: OpFacts) -> Finding | None:
    if not op.is_model_call:
        return None
    if op.response_ids_count is not None:
        units, unit, shortest = _response(op), "token", _MIN_TOKENS
    else:
        text = (op.replies[0].reasoning or "") + op.replies[0].text if len(op.replies) == 1 else ""
        units, unit, shortest = text.rstrip(), "character", _MIN_CHARS
    loop = find_loop(units, shortest)
    return None if loop is None else Finding("repetition", {"unit": unit, **loop._asdict()})


def _response(op: OpFacts) -> str:
    """The response tokens as a text of one character per token, which can be searched; empty if they are no such."""
    count, ids, mask = op.fields["response_tokens"], op.fields["tokens"], op.fields.get("response_mask")
    if not count or ids.null_count:
        return ""
    return _as_text(raw(ids)[-4 * count :], None if mask is None else raw(mask))


def repeats(response_ids: memoryview, mask: array[int] | None) -> bool:
    """Whether a response, of which the tokens are given as bytes, has such a loop."""
    return find_loop(_as_text(response_ids, mask), _MIN_TOKENS) is not None


def _as_text(ids: memoryview, mask: memoryview | array[int] | None) -> str:
    if len(ids) < 4 * _MIN_TOKENS or (mask is not None and bytes(mask).find(0) >= 0):
        return ""  # with a mask it holds what tools said, too; the model's own words are in the ops inside
    try:
        return str(ids, "utf-32-le", "surrogatepass")
    except UnicodeDecodeError:  # numbers that no vocabulary reaches
        return ""


def find_loop(units: str, shortest: int) -> Loop | None:
    """A stretch that repeats itself up to the end, or in half of the whole; None if there is none."""
    size = len(units)
    if size < shortest:
        return None
    window = shortest // 4
    for probe in range(_PROBES, 1, -1):
        loop = _loop_at(units, size * probe // _PROBES, window)
        if loop is not None and loop.length >= shortest:
            repeats = loop.length // loop.period
            is_dominant = loop.start + loop.length == size or 2 * loop.length >= size
            if is_dominant and repeats >= (3 if loop.length >= 4 * shortest else 5):
                return loop
    return None


def _loop_at(units: str, end: int, window: int) -> Loop | None:
    """The stretch around the last `window` units before `end` that repeats with their distance to the same before."""
    begin = end - window
    at = units.rfind(units[begin:end], max(0, begin - _MAX_PERIOD), end - 1)
    if at < 0:
        return None
    period = begin - at
    # Growing by leaps, then by smaller ones: where there is no loop, hardly anything is compared.
    before = after = window
    while before or after:
        if before and at >= before and units[at - before : at] == units[at - before + period : at + period]:
            at, before = at - before, 2 * before
        else:
            before //= 2
        if (
            after
            and end + after <= len(units)
            and units[end - period : end - period + after] == units[end : end + after]
        ):
            end, after = end + after, 2 * after
        else:
            after //= 2
    return Loop(at, end - at, period)
