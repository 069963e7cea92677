"""The short way of an op to its row: a template with what it shares with others, and the rest filled in.

Most ops are short, ended well, and hold neither secrets nor anything that JSON does not know; model calls have their
tokens right among their arguments or their result. Whatever is not plainly so goes the long way (`rows`), which makes
the same row of it at several times the cost.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from rolltrace.drain.checks import Checks, Finding, is_like_column
from rolltrace.drain.fit import LATEST_NS
from rolltrace.drain.redact import Redactor
from rolltrace.drain.text import Memory
from rolltrace.drain.transcripts import IMAGE_MARK
from rolltrace.record import (
    BARE_NAMES,
    COLUMN_OF,
    SPANS,
    TOKEN_NAMES,
    TOKEN_SCALARS,
    TRAJECTORIES,
    WHERE,
    OpEnd,
    TrajectoryEnd,
    TrajectoryStart,
    decode_value,
    may_tell,
)

_LONGEST_BYTES = 4096
"""Of inputs and outputs together."""
_MOST_TEMPLATES = 4096
_LARGEST_ID = (1 << 63) - 1
_COLUMNS = [column.name for column in SPANS.columns[len(WHERE) :]]
(
    _OP_ID, _PARENT_ID, _START_NS, _END_NS, _PAYLOAD, _PROMPT_TOKENS, _RESPONSE_TOKENS, _TOKENS,
    _LOGPROBS, _MASK, _FINISH_REASON,
) = map(
    _COLUMNS.index,
    ("op_id", "parent_id", "start_ns", "end_ns", "payload", "prompt_tokens", "response_tokens",
     "tokens", "logprobs", "response_mask", "finish_reason"),
)  # fmt: skip
_STARTED, _ENDED, _PARENT_TRAJECTORY, _PARENT_OP, _TAGS, _IS_GROUP = map(
    [column.name for column in TRAJECTORIES.columns[len(WHERE) :]].index,
    ("start_ns", "end_ns", "parent_trajectory_id", "parent_op_id", "tags", "is_group"),
)
_NUMBERS = {"prompt_ids": ("i", int), "response_ids": ("i", int), "logprobs": ("f", float), "response_mask": ("b", int)}
"""Column -> its type in an array, and the type that all of its numbers must have."""
_WITH_LIMITS = frozenset(
    {"sampling_params", "max_tokens", "max_new_tokens", "max_completion_tokens", "max_output_tokens"}
)
_WITH_NEWS = frozenset({"incomplete_details", "param_version_start", "param_version_end"})

Template = list[Any]
"""The values of a row after those of `WHERE`, in the order of its columns."""


class QuickOp(NamedTuple):
    """An op that took the short way."""

    values: tuple[Any, ...]
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

    @classmethod
    def of(cls, given: tuple[Any, ...], answered: tuple[Any, ...]) -> _CallShape | None:
        """None if it takes a closer look."""
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
        return cls(
            tuple((name, columns[name]) for name in given if name in columns),
            tuple((name, columns[name]) for name in answered if name in columns),
            reasons[0] if reasons else None,
            "messages" in given,
        )

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


class QuickSpans:
    """Makes rows of ops, where that is easy.

    Args:
        where: The values of `WHERE` of a record, without the trajectory's id and secrets; None if anything about them
            is odd.
        template: What ops of a name, status and kind have in common, without secrets. Without a kind: trajectories.
        redactor, memory, checks: Of the writer's `RowMaker`.
    """

    def __init__(
        self,
        where: Callable[[Any], tuple[Any, ...] | None],
        template: Callable[[str, str, str | None], Template],
        redactor: Redactor,
        memory: Memory,
        checks: Checks,
    ) -> None:
        self._where = where
        self._make_template = template
        self._redactor = redactor
        self._memory = memory
        self._checks = checks
        self._templates: dict[tuple[str, str, str | None], Template] = {}
        self._shapes: dict[tuple[tuple[Any, ...], tuple[Any, ...]], _CallShape | None] = {}

    def shape(self, record: OpEnd) -> QuickOp | None:
        """Its row and payload; None if it has to go the long way."""
        if record.error is not None or record.thread or record.tokenizer or len(record.trajectory_id) != 16:
            return None
        if len(record.inputs) + len(record.outputs) > _LONGEST_BYTES:
            return None
        if IMAGE_MARK in bytes(record.inputs) or IMAGE_MARK in bytes(record.outputs):
            return None
        op_id, parent_id = record.op_id, record.parent_id
        start_ns, end_ns = record.start_ns, record.end_ns
        if not (0 < start_ns < LATEST_NS and 0 <= end_ns < LATEST_NS):
            return None
        if not (0 < op_id <= _LARGEST_ID and 0 <= parent_id <= _LARGEST_ID):
            return None
        where, template = self._where(record), self._template(record.name, record.status, record.kind)
        if where is None:
            return None
        inputs, outputs = decode_value(record.inputs), decode_value(record.outputs)
        tokens = None
        if record.kind == "llm" or may_tell(inputs) or may_tell(outputs):
            tokens = self._take_tokens(record, inputs, outputs)
            if tokens is None:
                return None
        payload = self._redactor.clean_json({"inputs": inputs, "outputs": outputs})
        if payload is None:
            return None
        trajectory_id = record.trajectory_id.hex()
        finding = None
        if tokens is None:
            if not self._checks.are_silent(record, trajectory_id, outputs, payload):
                return None
        elif not self._checks.are_silent_on_call(record, trajectory_id, tokens, payload):
            return None
        else:
            finding = self._checks.of_quick_call(record, trajectory_id, tokens)
        self._memory.shared.remember(record)
        values = template.copy()
        values[_OP_ID] = op_id
        values[_PARENT_ID] = parent_id or None
        values[_START_NS] = start_ns
        values[_END_NS] = end_ns
        values[_PAYLOAD] = payload
        if tokens is not None:
            values[_PROMPT_TOKENS], values[_RESPONSE_TOKENS] = tokens.prompt, tokens.response
            values[_TOKENS], values[_LOGPROBS], values[_MASK] = tokens.ids, tokens.logprobs, tokens.mask
            values[_FINISH_REASON] = tokens.finish_reason
        return QuickOp((trajectory_id, *where, *values), inputs, outputs, finding)

    def trajectory(
        self, record: TrajectoryStart | TrajectoryEnd, status: str, end_ns: int | None
    ) -> tuple[Any, ...] | None:
        """The values of the row of a trajectory that runs or ended well; None if it has to go the long way."""
        parent_id, parent_op_id, start_ns = record.parent_trajectory_id, record.parent_op_id, record.start_ns
        if status == "interrupted" or record.run or len(record.trajectory_id) != 16:
            return None
        if (parent_id and len(parent_id) != 16) or not 0 <= parent_op_id <= _LARGEST_ID:
            return None
        if not (0 <= start_ns < LATEST_NS and (end_ns is None or 0 <= end_ns < LATEST_NS)):
            return None
        tags = decode_value(record.tags)
        clean_tags = None if tags is None else self._redactor.clean_json(tags)
        where = self._where(record)
        if where is None or (tags is not None and clean_tags is None):
            return None
        values = self._template(record.name, status, None).copy()
        values[_STARTED], values[_ENDED] = start_ns, end_ns
        values[_PARENT_TRAJECTORY] = parent_id.hex() if parent_id else None
        values[_PARENT_OP] = parent_op_id or None
        values[_TAGS], values[_IS_GROUP] = clean_tags, record.is_group or None
        return (record.trajectory_id.hex(), *where, *values)

    def _template(self, name: str, status: str, kind: str | None) -> Template:
        key = name, status, kind
        try:
            return self._templates[key]
        except KeyError:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self._make_template(name, status, kind)
            return template

    def _take_tokens(self, record: OpEnd, inputs: Any, outputs: Any) -> CallTokens | None:
        if record.kind != "llm" or type(inputs) is not dict or type(outputs) is not dict:
            return None
        names = tuple(inputs), tuple(outputs)
        try:
            shape = self._shapes[names]
        except KeyError:
            if len(self._shapes) >= _MOST_TEMPLATES:
                self._shapes.clear()
            shape = self._shapes[names] = _CallShape.of(*names)
        return None if shape is None else shape.take(inputs, outputs)
