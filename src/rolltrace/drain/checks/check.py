"""What a check sees, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from rolltrace.drain.tokens import token_places


class Finding(NamedTuple):
    """A problem that a check found."""

    flag: str
    detail: Mapping[str, Any] | None = None
    op_id: int | None = None
    """The op that has it, when that is not the one that was looked at."""


@dataclass(frozen=True)
class OpFacts:
    """An op as a check sees it."""

    fields: Mapping[str, Any]
    """Its row of `spans`; token columns as Arrow arrays."""
    inputs: Any
    outputs: Any

    @cached_property
    def is_model_call(self) -> bool:
        """Whether a model answered in it: it is said to, or it gives back token ids.

        Ops of no declared kind count, because verl's own decorator has none; what only takes tokens, such as a parser
        of tool calls, does not.
        """
        kind = self.fields["kind"]
        if kind == "other" and self.fields.get("response_tokens") is not None:
            pointer = {"$column": "response_ids"}
            return any(
                type(value) is dict and value == pointer
                for place in token_places(self.outputs)
                for value in place.values()
            )
        return bool(kind == "llm")


def raw(array: pa.Array) -> memoryview:
    """The bytes of an array of numbers, not copied."""
    buffer = array.buffers()[1]
    if buffer is None:
        return memoryview(b"")
    width = array.type.bit_width // 8
    return memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]
