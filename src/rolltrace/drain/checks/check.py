"""What a check sees, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from rolltrace.messages import Message, read_replies

_TAKEN = {"$column": "response_ids"}
"""What stands in the place of token ids that have become a column."""


class Finding(NamedTuple):
    """A problem that a check found."""

    flag: str
    detail: Mapping[str, Any] | None = None
    op_id: int | None = None
    """The op that has it, when that is not the one that was looked at."""


class OpFacts:
    """An op as a check sees it."""

    __slots__ = ("_replies", "fields", "inputs", "is_model_call", "outputs")

    def __init__(self, fields: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
        self.fields = fields
        """Its row of `spans`; token columns as Arrow arrays."""
        self.inputs = inputs
        self.outputs = outputs
        self._replies: list[Message] | None = None
        kind = fields["kind"]
        self.is_model_call: bool = kind == "llm" or (
            kind == "other" and fields.get("response_tokens") is not None and _gives_back(outputs, depth=1)
        )
        """Whether a model answered in it: it is said to, or it gives back token ids.

        Ops of no declared kind count, because verl's own decorator has none; what only takes tokens, such as a parser
        of tool calls, does not.
        """

    @property
    def replies(self) -> list[Message]:
        """What a model answered in it."""
        if self._replies is None:
            self._replies = read_replies(self.outputs)
        return self._replies

    @property
    def response_ids_count(self) -> int | None:
        """How many ids of response tokens there are; None if they are not known, or only as a number."""
        return None if self.fields.get("tokens") is None else self.fields.get("response_tokens")


def _gives_back(outputs: Any, depth: int) -> bool:
    """Whether response tokens were taken out of the outputs, or out of the one completion in them."""
    if isinstance(outputs, list) and len(outputs) == 1:
        outputs = outputs[0]
    if not isinstance(outputs, dict):
        return False
    inside = [value for value in outputs.values() if isinstance(value, dict | list)]
    return _TAKEN in inside or (depth > 0 and any(_gives_back(value, depth - 1) for value in inside))


def raw(array: pa.Array) -> memoryview:
    """The bytes of an array of numbers, not copied."""
    buffer = array.buffers()[1]
    if buffer is None:
        return memoryview(b"")
    width = array.type.bit_width // 8
    return memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]
