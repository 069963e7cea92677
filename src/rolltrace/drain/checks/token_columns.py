"""Token columns that contradict each other, or are not there.

length_mismatch: response tokens, logprobs and mask of one op are not equally many.

zero_logprobs: every logprob of a response is zero.

unread_tokens: a list that looks like one of these columns has a name that is not read.

`no_text`: text beside token ids was asked for, and this op has tokens but no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.record import OWN_PROCESS, flat_list, places, sides


def length_mismatch(op: OpFacts) -> Finding | None:
    fields = op.fields
    logprobs, mask = fields.get("logprobs"), fields.get("response_mask")
    if logprobs is None and mask is None:
        return None
    lengths = {"response_tokens": op.response_ids_count}
    lengths["logprobs"] = None if logprobs is None else len(logprobs)
    lengths["response_mask"] = None if mask is None else len(mask)
    present = {name: length for name, length in lengths.items() if length is not None}
    return Finding("length_mismatch", present) if len(set(present.values())) > 1 else None


MIN_LOGPROBS = 4
"""A short answer may well be certain."""


def zero_logprobs(op: OpFacts) -> Finding | None:
    logprobs = op.fields.get("logprobs")
    if logprobs is None or len(logprobs) < MIN_LOGPROBS or logprobs[0].as_py() != 0 or logprobs[-1].as_py() != 0:
        return None  # most of the time the first one tells
    are_zero = pc.all(pc.equal(logprobs, 0.0), skip_nulls=False).as_py()
    return Finding("zero_logprobs", {"logprobs": len(logprobs)}) if are_zero else None


_TOKENS = r"tok(?:en)?(?:s|_?ids?)?"
_LIKE = {
    "prompt_ids": re.compile(rf"(?:prompt|input|context)_?(?:\w+_)?(?:{_TOKENS}|ids?)"),
    "response_ids": re.compile(
        rf"(?:\w+_)?{_TOKENS}|(?:\w+_)?(?:response|completion|output|gen\w*|new|sampled|action)_?ids?|ids"
    ),
    "logprobs": re.compile(r"\w*log_?p\w*|(?:\w+_)?lps?"),
    "response_mask": re.compile(r"\w*mask\w*"),
}
"""How a name looks that somebody may have meant for a column."""
_MEANS_ANOTHER = re.compile(
    r"(?:^|_)(?:prompt|input|context|ref|reference|teacher|old|prev|top|attention|pad|padding|position|image)(?:_|$)"
)
"""In names of what belongs to the prompt, to another model, or is computed by the trainer."""


def unread_tokens(op: OpFacts) -> Iterator[Finding]:
    fields = op.fields
    if fields["status"] != "ok" or not op.is_model_call:
        return
    has_tokens = fields.get("tokens") is not None
    missing = {
        "prompt_ids": not has_tokens or fields.get("prompt_tokens") is None,
        "response_ids": op.response_ids_count is None,
        "logprobs": fields.get("logprobs") is None,
        "response_mask": fields.get("response_mask") is None,
    }
    answered = places(op.outputs)
    returned = [*answered, *sides(answered)]
    for column in (column for column, is_missing in missing.items() if is_missing):
        for place in [*returned, *places(op.inputs)] if column == "prompt_ids" else returned:
            named = ((name, flat_list(place[name])) for name in _like_column(column, tuple(place)))
            like = next(((name, values) for name, values in named if values and _fits(column, values)), None)
            if like is not None:
                yield Finding("unread_tokens", {"field": like[0], "column": column, "items": len(like[1])})
                break


@lru_cache(4096)
def _like_column(column: str, names: tuple[Any, ...]) -> list[str]:
    return [name for name in names if is_like_column(column, name)]


def is_like_column(column: str, name: Any) -> bool:
    """Whether somebody may have meant a list of this name for the column."""
    if not isinstance(name, str) or (column != "prompt_ids" and _MEANS_ANOTHER.search(name.lower())):
        return False
    return _LIKE[column].fullmatch(name.lower()) is not None


def _fits(column: str, values: list[Any]) -> bool:
    """Whether these are such numbers as the column has."""
    if not all(isinstance(each, int | float) for each in values):
        return False
    if column == "response_mask":
        return all(each in (0, 1) for each in values)
    if column == "logprobs":
        return all(not each > 0 for each in values) and any(isinstance(each, float) for each in values)
    return all(type(each) is int and each >= 0 for each in values)


def no_text(op: OpFacts, meta: Mapping[str, Any]) -> Finding | None:
    """No tokenizer was found for the op, or the one it has could not be saved or read.

    An op that its own process decodes is not looked at: its text comes later, or that process says why not.
    """
    fields = op.fields
    if not meta.get("token2text") or fields.get("tokens") is None or fields.get("end_ns") is None:
        return None
    tokenizer = fields.get("tokenizer")
    if fields.get("text") is not None or tokenizer == OWN_PROCESS:
        return None
    reason = "no tokenizer was found" if tokenizer is None else f"the tokenizer {tokenizer} could not be read"
    return Finding("no_text", {"reason": reason})
