"""The short way of an op to its row: a template with what it shares with others, and the rest filled in.

Most ops are short, ended well, and hold neither tokens nor secrets nor anything that JSON does not know. Whatever is
not plainly so goes the long way (`rows`), which makes the same row of it at several times the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace.drain.checks import Checks
from rolltrace.drain.fit import LATEST_NS
from rolltrace.drain.redact import Redactor
from rolltrace.drain.text import Memory
from rolltrace.record import SPANS, OpEnd, decode_value, may_tell

_LONGEST_BYTES = 4096
"""Of inputs and outputs together."""
_MOST_TEMPLATES = 4096
_LARGEST_ID = (1 << 63) - 1
_COLUMNS = [column.name for column in SPANS.columns]
_TRAJECTORY_ID, _OP_ID, _PARENT_ID, _START_NS, _END_NS, _PAYLOAD = map(
    _COLUMNS.index, ("trajectory_id", "op_id", "parent_id", "start_ns", "end_ns", "payload")
)

Template = list[Any]
"""The values of a row of `spans`, in the order of its columns."""


class QuickSpans:
    """Makes rows of ops, where that is easy.

    Args:
        template: The columns that do not depend on the single call, of one that ended well, without secrets; None if
            anything about them is odd.
        redactor, memory, checks: Of the writer's `RowMaker`.
    """

    def __init__(
        self, template: Callable[[OpEnd], Template | None], redactor: Redactor, memory: Memory, checks: Checks
    ) -> None:
        self._make_template = template
        self._redactor = redactor
        self._memory = memory
        self._checks = checks
        self._templates: dict[tuple[bytes, str, str, str], Template | None] = {}

    def values(self, record: OpEnd) -> tuple[Any, ...] | None:
        """The values of its row; None if it has to go the long way."""
        if record.error is not None or record.thread or record.tokenizer or len(record.trajectory_id) != 16:
            return None
        if len(record.inputs) + len(record.outputs) > _LONGEST_BYTES:
            return None
        op_id, parent_id = record.op_id, record.parent_id
        start_ns, end_ns = record.start_ns, record.end_ns
        if not (0 < start_ns < LATEST_NS and 0 <= end_ns < LATEST_NS):
            return None
        if not (0 < op_id <= _LARGEST_ID and 0 <= parent_id <= _LARGEST_ID):
            return None
        key = bytes(record.coordinates), record.name, record.kind, record.status
        try:
            template = self._templates[key]
        except KeyError:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self._make_template(record)
        if template is None:
            return None
        inputs, outputs = decode_value(record.inputs), decode_value(record.outputs)
        if may_tell(inputs) or may_tell(outputs):
            return None
        payload = self._redactor.clean_json({"inputs": inputs, "outputs": outputs})
        trajectory_id = record.trajectory_id.hex()
        if payload is None or not self._checks.are_silent(record.kind, record.status, trajectory_id, outputs, payload):
            return None
        self._memory.shared.remember(record)
        values = template.copy()
        values[_TRAJECTORY_ID] = trajectory_id
        values[_OP_ID] = op_id
        values[_PARENT_ID] = parent_id or None
        values[_START_NS] = start_ns
        values[_END_NS] = end_ns
        values[_PAYLOAD] = payload
        return tuple(values)
