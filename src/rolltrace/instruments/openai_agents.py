"""OpenAI's Agents SDK, by a processor of its traces, in the place of the one that sends them to OpenAI."""

from __future__ import annotations

from contextvars import Token
from importlib import import_module
from typing import Any

from rolltrace.capture import scope
from rolltrace.instruments.op import OpenOp, Running, begin_turn, callback
from rolltrace.integrations import Instrument, Undo
from rolltrace.record import Error

_MODEL_CALLS = ("generation", "response")


def change(tracing: Any) -> Undo:
    """`agents.tracing`, once it is loaded."""
    if not hasattr(tracing, "get_trace_provider"):  # somebody's own package of this name
        return lambda: None
    processors: Any = import_module("agents.tracing.processors")
    base: Any = import_module("agents.tracing.processor_interface").TracingProcessor
    roots: Running[OpenOp] = Running()
    spans: Running[OpenOp] = Running()
    places: Running[Token[scope.Place | None]] = Running()
    """What was around each tool where it began, which is where it ends too."""

    class Processor(base):  # type: ignore[misc]
        """Never raises, and sends nothing."""

        @callback("openai-agents", begins=True)
        def on_trace_start(self, trace: Any) -> None:
            roots.add(trace.trace_id, OpenOp(str(trace.name), "other", None, scope.current.get()))

        @callback("openai-agents")
        def on_trace_end(self, trace: Any) -> None:
            op = roots.take(trace.trace_id)
            if op is not None:
                op.finish()

        @callback("openai-agents", begins=True)
        def on_span_start(self, span: Any) -> None:
            root = roots.get(span.trace_id)
            if root is None:
                return
            data, here = span.span_data, scope.current.get()
            place: scope.Place = spans.get(span.parent_id) or root
            if here is not None and here is not root.enclosing:  # the user has begun something inside
                place = here
            if data.type in _MODEL_CALLS:
                op = begin_turn(f"agents.{data.type}", _inputs(data), place, outermost=True)
            else:
                kind: Any = "tool" if data.type == "function" else "other"
                op = OpenOp(str(getattr(data, "name", None) or data.type), kind, _inputs(data), place)
            spans.add(span.span_id, op)
            if data.type == "function":  # what the tool does belongs to it
                places.add(span.span_id, scope.current.set(op))

        @callback("openai-agents")
        def on_span_end(self, span: Any) -> None:
            op = spans.take(span.span_id)
            scope.leave(places.take(span.span_id))
            if op is None:
                return
            op.given(_inputs(span.span_data))
            outputs = _outputs(span.span_data)
            if span.error:
                op.break_off(Error("SpanError", _told(span.error), ""), value=outputs)
            else:
                op.finish(outputs)

        def shutdown(self) -> None:
            pass

        def force_flush(self) -> None:
            pass

    recorder = Processor()
    provider = tracing.get_trace_provider()
    every = provider._multi_processor
    before = every._processors
    vendors = processors.default_processor()
    every.set_processors([each for each in before if each is not vendors] + [recorder])

    def undo() -> None:
        now = [each for each in every._processors if each is not recorder]
        every.set_processors(
            list(before) if set(now) <= set(before) else [*before, *(n for n in now if n not in before)]
        )

    return undo


def _inputs(data: Any) -> Any:
    if data.type == "generation":
        return {"messages": data.input, "model": data.model, **(data.model_config or {})}
    if data.type == "response":
        return {"input": data.input}
    if data.type == "function":
        return {"input": data.input}
    exported = data.export() or {}
    return {name: value for name, value in exported.items() if name not in ("type", "output", "usage")}


def _outputs(data: Any) -> Any:
    if data.type == "generation":
        messages = data.output
        return {"messages": list(messages), "usage": data.usage} if messages is not None else None
    return data.response if data.type == "response" else getattr(data, "output", None)


def _told(error: Any) -> str:
    message, data = error.get("message"), error.get("data")
    return f"{message}: {data}" if data else str(message)


INSTRUMENT = Instrument("agents", "agents.tracing", change)
