"""An op that yields: its items are recorded as they go by, and how it came to an end.

The op is the current one only while the generator's own code runs, not while its consumer holds an item:
a generator shares its caller's context, and the consumer's ops are not its children.
"""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.span import Span

if TYPE_CHECKING:
    from rolltrace.capture.signature import Call

T = TypeVar("T")


class StreamSpan(Span):
    """One run of a traced generator. Its output: `items`, `count`, `end` and, if there is one, `return`."""

    __slots__ = ("_count", "_end_word", "_items", "_items_bytes", "_returned")

    def __init__(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(call, args, kwargs)
        self._count = 0
        self._items: list[Raw] = []
        self._items_bytes = 0
        self._end_word = "raised"
        self._returned: Any = None

    def __enter__(self) -> StreamSpan:
        return self

    def resume(self) -> Token[scope.Place | None] | None:
        """The generator's own code runs from here to `pause`."""
        return scope.current.set(self) if self._recorder is not None else None

    def pause(self, before: Token[scope.Place | None] | None) -> None:
        if before is not None:
            scope.leave(before)

    def yielded(self, item: T) -> T:
        """Record an item as it is now, and pass it on."""
        recorder = self._recorder
        if recorder is not None:
            self._count += 1
            settings = recorder.settings
            if len(self._items) < settings.max_stream_items and self._items_bytes < settings.max_bytes:
                try:
                    select = self.call.select_outputs
                    raw = recorder.snapshot(item if select is None else select(item))
                    self._items.append(Raw(raw))
                    self._items_bytes += len(raw)
                except Exception:
                    caught("op item")
        return item

    def returned(self, value: T) -> T:
        self._end_word, self._returned = "exhausted", value
        return value

    def closing(self) -> Token[scope.Place | None] | None:
        """The consumer stopped early, and the generator's own code cleans up, until `pause`."""
        self._end_word = "closed"
        return self.resume()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        recorder = self._recorder
        if recorder is not None:
            outputs: dict[str, Any] = {"items": self._items, "count": self._count, "end": self._end_word}
            if self._returned is not None:
                outputs["return"] = self._returned
            try:
                self._outputs = Raw(recorder.snapshot(outputs))
            except Exception:
                caught("op output")
        # To stop early is the consumer's right, not a failure of the generator.
        super().__exit__(kind, None if self._end_word == "closed" and kind is GeneratorExit else failure, tb)
