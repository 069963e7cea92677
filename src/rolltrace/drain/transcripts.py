"""The transcripts of the trajectories that a drainer follows: ops in, rows of `messages` out.

A transcript is fed with payloads as the journal has them, and opens only what is new in a prompt: without secrets, and
with images taken out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.drain.redact import Redactor
from rolltrace.messages import EndedOp, OpRows, Transcript, take_images
from rolltrace.record import Event, OpEnd, decode_value

MAX_TRANSCRIPTS = 16_384
"""So many are remembered; those not heard of for the longest time are forgotten first."""
_NOTHING = OpRows([])
REDACTED_MARK = "[redacted"
"""What was taken out of a payload left this behind."""
IMAGE_MARK = b"image/"
"""What every payload with an image in it has somewhere."""


class Transcripts:
    """All transcripts of one drainer."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._open: OrderedDict[str, Transcript] = OrderedDict()
        self._saved: dict[str, bytes] = {}
        """The state of those that did not change since it was saved."""
        self._finished: set[str] = set()
        self._is_clean = False
        """Nothing has to be taken out of what is decoded now."""

    def load(self, saved: Mapping[str, bytes]) -> None:
        """Go on from what `save` returned."""
        self._open.clear()
        self._finished.clear()
        self._saved = dict(saved)

    def save(self) -> dict[str, bytes]:
        """The states of all that may go on."""
        for trajectory_id, transcript in self._open.items():
            if trajectory_id not in self._saved and trajectory_id not in self._finished:
                self._saved[trajectory_id] = transcript.save()
        for trajectory_id in self._finished:
            self._saved.pop(trajectory_id, None)
        return self._saved

    def op_ended(self, record: OpEnd, fields: Mapping[str, Any], opened: tuple[Any, Any] | None) -> OpRows:
        """What an op adds.

        Args:
            record: The op.
            fields: Those of its event row, with the text of its tokens.
            opened: Its inputs and outputs, if there are no secrets in them.
        """
        inputs, outputs = record.inputs, record.outputs
        if opened is not None:
            inputs = inputs if record.kind == "llm" else opened[0]  # most of a long prompt is never decoded
            outputs = opened[1]
        self._is_clean = opened is not None
        try:
            return self.values_ended(fields, inputs, outputs)
        finally:
            self._is_clean = False

    def values_ended(self, fields: Mapping[str, Any], inputs: Any, outputs: Any) -> OpRows:
        """The same for any op whose payload is given."""
        return self._op_ended(fields["trajectory_id"], ended_op(fields, inputs, outputs))

    def _op_ended(self, trajectory_id: str, op: EndedOp) -> OpRows:
        try:
            try:
                return self._of(trajectory_id).op_ended(op)
            except RecursionError:  # too deep to be opened a piece at a time
                op.inputs, op.outputs = self._open_whole(op.inputs), self._open_whole(op.outputs)
                return self._of(trajectory_id).op_ended(op)
        except Exception:  # whatever is in a payload, its op is to be kept
            caught("transcript")
            return _NOTHING

    def step_taken(self, record: Event, trajectory_id: str) -> OpRows:
        """What an environment step adds, if no op tells what the policy said."""
        transcript = self._of(trajectory_id)
        if transcript.is_told_by_ops:
            return _NOTHING
        try:
            body = self._decode(record.body)
            trace = body.get("trace") if isinstance(body, dict) else None
            if not isinstance(trace, dict):
                return _NOTHING
            return transcript.step_taken(trace.get("prompt"), trace.get("policy_response"), time_ns=record.time_ns)
        except Exception:
            caught("transcript")
            return _NOTHING

    def text_told(self, fields: Mapping[str, Any]) -> OpRows:
        """What an op adds whose tokens were decoded after it had ended, by the event row that tells it."""
        text, prompt_chars = fields["text"] or "", fields["prompt_chars"] or 0
        try:
            transcript = self._of(fields["trajectory_id"])
            return transcript.text_told(fields["op_id"], text[:prompt_chars] or None, text[prompt_chars:])
        except Exception:
            caught("transcript")
            return _NOTHING

    def finish(self, trajectory_id: str, time_ns: int) -> OpRows:
        """The trajectory has ended."""
        if trajectory_id not in self._open and trajectory_id not in self._saved:
            return _NOTHING
        transcript = self._of(trajectory_id)
        self._finished.add(trajectory_id)
        return transcript.finish(time_ns)

    def _of(self, trajectory_id: str) -> Transcript:
        transcript = self._open.get(trajectory_id)
        if transcript is None:
            transcript = self._open[trajectory_id] = Transcript(self._saved.get(trajectory_id), decode=self._decode)
            while len(self._open) > MAX_TRANSCRIPTS:
                forgotten, _ = self._open.popitem(last=False)
                self._saved.pop(forgotten, None)
                self._finished.discard(forgotten)
        else:
            self._open.move_to_end(trajectory_id)
        self._saved.pop(trajectory_id, None)
        return transcript

    def _open_whole(self, value: Any) -> Any:
        return self._decode(value) if isinstance(value, Raw) else value

    def _decode(self, raw: Raw) -> Any:
        value = decode_value(raw)
        if IMAGE_MARK in bytes(raw):
            value = take_images(value).value
        return value if self._is_clean else self._redactor.value(value)


def ended_op(row: Mapping[str, Any], inputs: Any, outputs: Any) -> EndedOp:
    """What a transcript needs of an op, from its event row and its payload."""
    text, prompt_chars = row.get("text"), row.get("prompt_chars") or 0
    return EndedOp(
        op_id=row["op_id"],
        kind=row["kind"],
        name=row["name"],
        parent_id=row["parent_id"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"] or row["start_ns"],
        inputs=inputs,
        outputs=outputs,
        error=row["error"],
        prompt_text=None if text is None or row["prompt_tokens"] is None else text[:prompt_chars],
        response_text=None if text is None or row["response_tokens"] is None else text[prompt_chars:],
        prompt_tokens=row["prompt_tokens"],
        response_tokens=row["response_tokens"],
    )
