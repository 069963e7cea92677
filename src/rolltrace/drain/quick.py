"""The short way of an op to its row, for those that are plain: most are.

They are short, ended well, and hold no secrets and nothing that JSON does not know; model calls have their tokens right
among their arguments or their result. Whatever is not plainly so goes the long way (`rows`), which makes the same row
of it, and takes half as much time again for all that is drained.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from rolltrace.drain.checks import Checks, Finding, is_like_column
from rolltrace.drain.redact import Redactor
from rolltrace.drain.text import Memory
from rolltrace.drain.transcripts import IMAGE_MARK, REDACTED_MARK
from rolltrace.record import BARE_NAMES, COLUMN_OF, TOKEN_NAMES, TOKEN_SCALARS, OpEnd, decode_value, may_tell

_MAX_BYTES = 4096
"""Of inputs and outputs together."""
_MAX_SHAPES = 4096
_MAX_ID = (1 << 63) - 1
_MAX_NS = 1 << 62
_NUMBERS = {"prompt_ids": ("i", int), "response_ids": ("i", int), "logprobs": ("f", float), "response_mask": ("b", int)}
"""Column -> its type in an array, and the type that all of its numbers must have."""
_WITH_LIMITS = frozenset(
    {"sampling_params", "max_tokens", "max_new_tokens", "max_completion_tokens", "max_output_tokens"}
)
_WITH_NEWS = frozenset({"incomplete_details", "param_version_start", "param_version_end"})


class QuickOp(NamedTuple):
    """An op that took the short way."""

    fields: dict[str, Any]
    """Of its row."""
    inputs: Any
    outputs: Any
    """Decoded, and without secrets."""
    finding: Finding | None


class CallTokens(NamedTuple):
    """The tokens of a model call."""

    prompt: int
    """How many of `ids` are the prompt's."""
    ids: array[int]
    logprobs: array[float] | None
    mask: array[int] | None
    finish_reason: str | None

    @property
    def response(self) -> int:
        return len(self.ids) - self.prompt


class _CallShape(NamedTuple):
    """Where calls with these names among their arguments and in their result have their tokens."""

    given: tuple[tuple[str, str], ...]
    """Names and their columns."""
    answered: tuple[tuple[str, str], ...]
    reason: str | None
    has_messages: bool

    def take(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> CallTokens | None:
        """The tokens, which are replaced in inputs and outputs as `take_columns` does; None if they are not plain."""
        if self.has_messages:
            messages = inputs["messages"]
            if type(messages) is not list or (messages and (type(messages[-1]) is not dict or may_tell(messages[-1]))):
                return None
        reason = None if self.reason is None else outputs[self.reason]
        if reason is not None and (type(reason) is not str or not reason.isascii()):
            return None
        columns: dict[str, array[Any]] = {}
        for place, names in ((inputs, self.given), (outputs, self.answered)):
            for name, column in names:
                numbers, (code, kind) = place[name], _NUMBERS[column]
                if type(numbers) is not list or set(map(type, numbers)) != {kind}:
                    return None
                try:
                    columns[column] = array(code, numbers)
                except OverflowError:
                    return None
                place[name] = {"$column": column}
        prompt = columns["prompt_ids"]
        ids = prompt + columns["response_ids"]
        return CallTokens(len(prompt), ids, columns.get("logprobs"), columns.get("response_mask"), reason)


@lru_cache(_MAX_SHAPES)
def _find_shape(given: tuple[Any, ...], answered: tuple[Any, ...]) -> _CallShape | None:
    """The shape of calls with these names; None if it takes a closer look."""
    names = [*given, *answered]
    if not all(type(name) is str for name in names) or not _WITH_LIMITS.isdisjoint(given):
        return None
    columns = {name: COLUMN_OF[name] for name in names if name in COLUMN_OF}
    if len(set(columns.values())) != sum(name in COLUMN_OF for name in names) or not BARE_NAMES.isdisjoint(columns):
        return None
    reasons = [name for name in answered if name in TOKEN_SCALARS["finish_reason"]]
    others = [name for name in answered if name not in columns and name not in reasons]
    missing = set(TOKEN_NAMES).difference(columns.values())
    if (
        not missing.isdisjoint(("prompt_ids", "response_ids"))
        or len(reasons) > 1
        or not _WITH_NEWS.isdisjoint(answered)
        or may_tell(dict.fromkeys(others))
        or may_tell(dict.fromkeys(name for name in given if name not in columns and name != "messages"))
        or any(is_like_column(column, name) for column in missing for name in others)
    ):
        return None
    return _CallShape(
        tuple((name, columns[name]) for name in given if name in columns),
        tuple((name, columns[name]) for name in answered if name in columns),
        reasons[0] if reasons else None,
        "messages" in given,
    )


class QuickOps:
    """Makes rows of ops, where that is easy.

    Args:
        shared: The columns of a record that others have too, without secrets; None if anything about them is odd.
        redactor, memory, checks: Of the writer's `RowMaker`.
    """

    def __init__(
        self, shared: Callable[[OpEnd], dict[str, Any] | None], redactor: Redactor, memory: Memory, checks: Checks
    ) -> None:
        self._shared = shared
        self._redactor = redactor
        self._memory = memory
        self._checks = checks

    def shape(self, record: OpEnd) -> QuickOp | None:
        """Its row and payload; None if it has to go the long way."""
        if record.error is not None or record.thread or record.tokenizer or len(record.trajectory_id) != 16:
            return None
        if len(record.inputs) + len(record.outputs) > _MAX_BYTES:
            return None
        if IMAGE_MARK in bytes(record.inputs) or IMAGE_MARK in bytes(record.outputs):
            return None
        if not (0 < record.start_ns < _MAX_NS and 0 <= record.end_ns < _MAX_NS):
            return None
        if not (0 < record.op_id <= _MAX_ID and 0 <= record.parent_id <= _MAX_ID):
            return None
        fields = self._shared(record)
        if fields is None:
            return None
        inputs, outputs, tokens = decode_value(record.inputs), decode_value(record.outputs), None
        if record.kind == "llm" or may_tell(inputs) or may_tell(outputs):
            if record.kind != "llm" or type(inputs) is not dict or type(outputs) is not dict:
                return None
            shape = _find_shape(tuple(inputs), tuple(outputs))
            tokens = None if shape is None else shape.take(inputs, outputs)
            if tokens is None:
                return None
        payload = self._redactor.json({"inputs": inputs, "outputs": outputs})
        if REDACTED_MARK in payload or '"$' in payload.replace('{"$column"', ""):
            return None
        if not self._checks.are_silent(record, fields["trajectory_id"], tokens, outputs, payload):
            return None
        finding = None
        if tokens is not None:
            finding = self._checks.of_quick_call(record, fields["trajectory_id"], tokens)
            fields["prompt_tokens"], fields["response_tokens"] = tokens.prompt, tokens.response
            fields["tokens"], fields["logprobs"], fields["response_mask"] = tokens.ids, tokens.logprobs, tokens.mask
            fields["finish_reason"] = tokens.finish_reason
        self._memory.shared.remember(record)
        fields["op_id"], fields["parent_id"], fields["payload"] = record.op_id, record.parent_id or None, payload
        fields["start_ns"], fields["end_ns"] = record.start_ns, record.end_ns
        return QuickOp(fields, inputs, outputs, finding)
