"""Find token ids, logprobs and masks in the inputs and outputs of an op, under the names that frameworks use.

What is found becomes a typed column and is taken out of the JSON, where `{"$column": NAME}` stands in its place.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rolltrace.record import Array
from rolltrace.record.tokens import NAMES, SCALARS, SIDES, flat_list, places

_TYPES = {
    "prompt_ids": pa.int32(),
    "response_ids": pa.int32(),
    "logprobs": pa.float32(),
    "response_mask": pa.int8(),
}


def take_columns(inputs: Any, outputs: Any) -> dict[str, Any]:
    """The token columns and scalars of an op. Replaces what it takes in `inputs` and `outputs`."""
    found: dict[str, Any] = {}
    standing = [place for value in (outputs, inputs) for place in places(value)]
    for column, names in NAMES.items():
        for place in standing:
            name = next((name for name in names if name in place), "")
            values = _typed(place[name], column) if name else None
            if values is not None:
                found[column] = values
                place[name] = {"$column": column}
                break
    sides = [side for place in standing for name in SIDES if isinstance(side := place.get(name), dict)]
    for column, names in SCALARS.items():
        for place in (*standing, *sides):
            value = next((place[name] for name in names if name in place), None)
            scalar = _version(value) if column == "policy_version" else value if isinstance(value, str) else None
            if scalar is not None:
                found[column] = scalar
                break
    return join_tokens(found)


def _version(value: Any) -> int | None:
    """A whole number, as a trainer may write it: 3, 3.0, "3", or an array of no dimensions."""
    if isinstance(value, Array) and value.shape == ():
        value = value.tolist()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def join_tokens(found: dict[str, Any]) -> dict[str, Any]:
    """Prompt and response as one column: what an agent loop returns as its response is what its last model call saw
    as its prompt, and only within a column can the compression see that."""
    halves = []
    for column, count in (("prompt_ids", "prompt_tokens"), ("response_ids", "response_tokens")):
        ids = found.pop(column, None)
        if ids is not None:
            halves.append(ids)
            found[count] = len(ids)
    if halves:
        found["tokens"] = halves[0] if len(halves) == 1 else pa.concat_arrays(halves)
    return found


def _typed(value: Any, column: str) -> pa.Array | None:
    """The values as an Arrow array; None if they are not a flat list of fitting numbers."""
    if isinstance(value, pa.Array):
        return value
    values = flat_list(value)
    try:
        return None if values is None else pa.array(values, type=_TYPES[column])
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return None
