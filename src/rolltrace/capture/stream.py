"""An op that yields: its items are recorded as they go by, and how it came to an end.

The op is the current one only while the generator's own code runs, not while its consumer holds an item:
a generator shares its caller's context, and the consumer's ops are not its children.
"""

from __future__ import annotations

from contextvars import Token
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.capture.span import Span
from rolltrace.record import MODEL_KINDS, NOTHING, OpStart, encode_record

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.signature import Call

T = TypeVar("T")


class StreamSpan(Span):
    """One run of a traced generator. Its output: `items`, `count`, `end` and, if there is one, `return`."""

    __slots__ = ("_count", "_end_word", "_full", "_items", "_items_bytes", "_items_written", "_place")

    def __init__(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._count = 0
        self._items: list[Raw] = []
        self._items_bytes = self._items_written = 0
        self._full = False
        """A limit is reached: further items are only counted."""
        self._end_word = "exhausted"
        self._place: scope.Place | None = None
        """Where the generator's own code stopped, if not right inside this op: a trajectory it has begun."""
        super().__init__(call, args, kwargs)

    def resume(self) -> Token[scope.Place | None] | None:
        """The generator's own code runs from here to `pause`."""
        return scope.current.set(self._place or self) if self._recorder is not None else None

    def pause(self, before: Token[scope.Place | None] | None) -> None:
        if before is not None:
            place = scope.current.get()
            self._place = None if place is self else place
            scope.leave(before)

    def yielded(self, item: T) -> T:
        """Record an item as it is now, and pass it on."""
        recorder = self._recorder
        if recorder is not None:
            self._count += 1
            self._end_word = "exhausted"
            if not self._full:
                try:
                    select = self.call.select_outputs
                    self._keep(recorder, recorder.snapshot(item if select is None else select(item)))
                except Exception:
                    caught("op item")
        return item

    def _keep(self, recorder: Recorder, raw: bytes) -> None:
        settings = recorder.settings
        self._items_bytes += len(raw)
        # A reply is of no use without its end: what a model streams is limited by its size only.
        is_long = len(self._items) >= settings.max_stream_items and self.call.kind not in MODEL_KINDS
        if is_long or (self._items and self._items_bytes > settings.max_bytes):
            self._full = True
            recorder.cut_streams += 1
        else:
            self._items.append(Raw(raw))

    def count_unkept(self, items: int) -> None:
        """So many items came that are not to be recorded."""
        self._count += items

    def write_so_far(self) -> None:
        """Write the items that are new to the journal: the end, which has all of them, may never come. Never raises.

        It doubles what a stream writes, and its inputs: for a process whose work this is (`rolltrace proxy`), not for a
        rollout.
        """
        recorder = self._recorder
        if recorder is None or self._items_written == len(self._items):
            return
        try:
            trajectory, call = self._trajectory, self.call
            inputs = NOTHING if self._items_written else self._inputs
            new, self._items_written = self._items[self._items_written :], len(self._items)
            start = OpStart(
                trajectory.trace_id, trajectory.coordinates, self.op_id, self.parent_id, call.name, call.kind,
                self._start_ns, inputs, new,
            )  # fmt: skip
            recorder.append(encode_record(start), trajectory.step)
        except Exception:
            caught("op item")

    def thrown(self, thrown: BaseException) -> None:
        """The consumer throws into the generator; GeneratorExit says that it stops early."""
        if isinstance(thrown, GeneratorExit):
            self._end_word = "closed"

    def returned(self, value: Any) -> None:
        recorder = self._recorder
        if recorder is not None:
            end_tick = recorder.tick_ns()
            self._end(recorder, end_tick, self._outputs(recorder, value), "ok", None)

    def failed(self, failure: BaseException) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        if self._end_word == "closed" and isinstance(failure, GeneratorExit):
            return self.returned(None)  # to stop early is the consumer's right, not a failure
        self._end_word = "raised"
        end_tick = recorder.tick_ns()
        outputs = self._outputs(recorder, None)
        self._end(recorder, end_tick, outputs, status_of(failure), describe_failure(failure))

    def _outputs(self, recorder: Recorder, value: Any) -> Raw:
        outputs: dict[str, Any] = {"items": self._items, "count": self._count, "end": self._end_word}
        try:
            if value is not None:
                select = self.call.select_outputs
                outputs["return"] = Raw(recorder.snapshot(value if select is None else select(value)))
            return Raw(encode_record(outputs))  # the parts are within the limits already
        except Exception:
            caught("op output")
            return NOTHING
