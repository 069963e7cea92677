"""The peer: OpenTelemetry's SDK, set up as a careful user would to keep the same data in a file.

It is given every advantage that costs it no data: the signature is read once, at decoration; its worker
thread batches; and the final flush is not timed. Inputs are dumped when the call starts and outputs when
it ends, since an argument that is mutated in between must not show up mutated.
"""

import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracer, Tracer

from benchmarks.peers.peer import Coordinates
from benchmarks.tracers import Decorator, scratch_folder
from rolltrace.record import OpKind

# Far above the spans of any round, so that the queue never drops one; the default is 2,048.
QUEUE_SPANS = 1_000_000


class JsonLinesExporter(SpanExporter):
    """Appends each span to a file as one line of JSON."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._file.writelines(span.to_json(indent=None) + "\n" for span in spans)
        self._file.flush()
        self.exported += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._file.close()


class OpenTelemetry:
    """The OpenTelemetry SDK behind the same decorator as ours.

    With `postponed`, nothing is exported before the end: no thread competes for the GIL, memory only grows.
    Nobody could run it so, but it shows how much of its cost is the making of spans.
    """

    def __init__(self, *, postponed: bool = False) -> None:
        # None leaves the SDK's default.
        self._batch_spans = QUEUE_SPANS if postponed else None
        self._delay_ms = 3_600_000 if postponed else None
        self._tracer: Tracer = NoOpTracer()
        self._started = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        with scratch_folder() as folder, self.exporting_to(Path(folder, "spans.jsonl")):
            yield

    @contextmanager
    def exporting_to(self, path: Path) -> Iterator[None]:
        exporter = JsonLinesExporter(path)
        provider = TracerProvider(resource=Resource({"service.name": "bench"}))
        provider.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=QUEUE_SPANS,
                max_export_batch_size=self._batch_spans,
                schedule_delay_millis=self._delay_ms,
            )
        )
        self._tracer = provider.get_tracer("bench")
        self._started = 0
        try:
            yield
            provider.force_flush()
            if exporter.exported != self._started:
                raise RuntimeError(f"OpenTelemetry kept {exporter.exported} of {self._started} spans")
        finally:
            provider.shutdown()

    def op(self, *, name: str, kind: OpKind) -> Decorator:
        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            parameters = tuple(inspect.signature(fn).parameters)

            def span(args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[Any]:
                inputs = dict(zip(parameters, args, strict=False)) | kwargs
                inputs.pop("self", None)
                self._started += 1
                attributes = {"op.kind": kind, "inputs": json.dumps(inputs)}
                return self._tracer.start_as_current_span(name, attributes=attributes)

            if inspect.iscoroutinefunction(fn):

                @wraps(fn)
                async def async_shell(*args: Any, **kwargs: Any) -> Any:
                    with span(args, kwargs) as current:
                        output = await fn(*args, **kwargs)
                        current.set_attribute("output", json.dumps(output))
                        return output

                return async_shell

            @wraps(fn)
            def shell(*args: Any, **kwargs: Any) -> Any:
                with span(args, kwargs) as current:
                    output = fn(*args, **kwargs)
                    current.set_attribute("output", json.dumps(output))
                    return output

            return shell

        return decorate

    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]:
        self._started += 1
        attributes = {"sample_index": sample_index, "step": 1, "rollout_n": rollout_n, "validate": False}
        return self._tracer.start_as_current_span("trajectory", attributes=attributes)


class OpenTelemetryFile(OpenTelemetry):
    """The same, with a file for each process, and read back."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__()
        self.folder = folder

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.exporting_to(self.folder / f"{os.getpid()}.jsonl"):
            yield

    def _spans(self) -> Iterator[dict[str, Any]]:
        """Those that are there whole: the last line of a killed process may not be."""
        for file in self.folder.glob("*.jsonl"):
            for line in file.open():
                if line.endswith("\n"):
                    yield json.loads(line)

    def complete_ops(self) -> Counter[Coordinates]:
        """A span says what trace it is of; the coordinates are on the trace's first span, which comes last."""
        places: dict[str, Coordinates] = {}
        outputs: Counter[str] = Counter()
        for span in self._spans():
            attributes, trace = span["attributes"], span["context"]["trace_id"]
            if span["name"] == "trajectory":
                places[trace] = (attributes["sample_index"], attributes["rollout_n"])
            outputs[trace] += "output" in attributes
        return Counter({place: outputs[trace] for trace, place in places.items()})

    def list_step(self) -> int:
        return sum(span["name"] == "trajectory" and span["attributes"]["step"] == 1 for span in self._spans())

    def open_one(self) -> int:
        return self.complete_ops()[0, 0]
