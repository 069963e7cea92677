"""Find token ids, logprobs and masks in the inputs and outputs of an op, under the names that frameworks use.

A list of numbers becomes a typed column and is taken out of the JSON, where `{"$column": NAME}` stands in its place.
What stands there in another form, a dict per token or pieces of a stream, is read and stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from rolltrace.messages import join_stream
from rolltrace.record import (
    TOKEN_SCALARS,
    Array,
    flat_list,
    may_tell,
    names_in,
    places,
    sides,
    spelt_out,
    usage_of,
)

_TYPES = {
    "prompt_ids": pa.int32(),
    "response_ids": pa.int32(),
    "logprobs": pa.float32(),
    "response_mask": pa.int8(),
}


def take_columns(inputs: Any, outputs: Any) -> dict[str, Any]:
    """The token columns and scalars of an op. Replaces what it takes in `inputs` and `outputs`."""
    columns: dict[str, Any] = {}
    if not may_tell(inputs) and not may_tell(outputs):
        return columns
    whole = join_stream(outputs)
    answered = places(whole)
    standing = [*answered, *places(inputs)]
    spelt = spelt_out(answered)  # before any ids are taken out: they say which logprob is meant
    for at, place in enumerate(standing):
        for column, names in names_in(place, is_answer=at < len(answered)).items():
            if column not in columns and (values := _take(place, names, column)) is not None:
                columns[column] = values
    for column, numbers in spelt.items():
        if column not in columns and (values := _typed(numbers, column)) is not None:
            columns[column] = values
    for place in (*standing, *sides(standing)):
        if not _SCALAR_NAMES.isdisjoint(place):
            for column, name in _SCALARS:
                if column not in columns and (scalar := _READ[column](place.get(name))) is not None:
                    columns[column] = scalar
    if "finish_reason" not in columns and answered:
        _responses_end(answered[0], columns)
    return _counted(join_tokens(columns), whole)


def _take(place: dict[str, Any], names: Iterable[str], column: str) -> pa.Array | None:
    """The values of a column under the first of these names that has fitting ones, which are replaced."""
    for name in names:
        values = _typed(place[name], column)
        if values is not None:
            place[name] = {"$column": column}
            return values
    return None


def _reason(value: Any) -> str | None:
    """Why a model stopped; SGLang says it in a dict."""
    if isinstance(value, dict):
        value = value.get("type")
    return value if isinstance(value, str) else None


def _responses_end(place: dict[str, Any], columns: dict[str, Any]) -> None:
    """How a response of OpenAI ended."""
    if place.get("object") == "response" and isinstance(place.get("status"), str):
        why = place.get("incomplete_details")
        reason = why.get("reason") if isinstance(why, dict) else None
        columns["finish_reason"] = reason if isinstance(reason, str) else place["status"]


def _counted(columns: dict[str, Any], outputs: Any) -> dict[str, Any]:
    """With the numbers of tokens that the server tells, where there are no token ids to count."""
    usage = {name: count for name, count in usage_of(outputs)._asdict().items() if count is not None}
    if columns.get("tokens") is not None:
        usage.pop("prompt_tokens", None)
        usage.pop("response_tokens", None)
    return {**usage, **columns}


def _version(value: Any) -> int | None:
    """A whole number, as a trainer may write it: 3, 3.0, "3", or an array of no dimensions."""
    if isinstance(value, Array) and value.shape == ():
        value = value.tolist()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


_READ = {"policy_version": _version, "finish_reason": _reason}
_SCALARS = [(column, name) for column, names in TOKEN_SCALARS.items() for name in names]
_SCALAR_NAMES = frozenset(name for _, name in _SCALARS)


def join_tokens(columns: dict[str, Any]) -> dict[str, Any]:
    """Prompt and response as one column: what an agent loop returns as its response is what its last model call saw
    as its prompt, and only within a column can the compression see that."""
    halves = []
    for column, count in (("prompt_ids", "prompt_tokens"), ("response_ids", "response_tokens")):
        ids = columns.pop(column, None)
        if ids is not None:
            halves.append(ids)
            columns[count] = len(ids)
    if halves:
        columns["tokens"] = halves[0] if len(halves) == 1 else pa.concat_arrays(halves)
    return columns


def _typed(value: Any, column: str) -> pa.Array | None:
    """The values as an Arrow array; None if they are not a flat list of fitting numbers."""
    if isinstance(value, pa.Array):
        return value
    values = flat_list(value)
    try:
        return None if values is None else pa.array(values, type=_TYPES[column])
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return None
