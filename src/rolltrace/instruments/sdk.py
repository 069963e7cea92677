"""The SDKs that share one generator, OpenAI's and Anthropic's: every request goes through `request` of two classes.

What a call gives is taken from what it returns. A body that the caller reads himself (streams of events, raw and
streaming responses) is followed where the HTTP library hands out its bytes: each piece is handed on first, and looked
at when the caller asks for the next one. The objects stay what they were.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import rollout_trace_op, scope
from rolltrace.instruments.events import Events, value_of
from rolltrace.instruments.op import OpenOp, begin_turn, is_recording
from rolltrace.instruments.protocols import call_name
from rolltrace.integrations import Undo, replace


def change(module: Any) -> Undo:
    """Change the module `_base_client` of such an SDK."""
    sync, asynchronous = module.SyncAPIClient, module.AsyncAPIClient
    undo = [
        replace(sync, "request", _sync(sync.request)),
        replace(asynchronous, "request", _async(asynchronous.request)),
        *(
            replace(owner, "_sleep_for_retry", _retry(owner._sleep_for_retry))
            for owner in (sync, asynchronous)
            if hasattr(owner, "_sleep_for_retry")  # a private method: without it, attempts are not told apart
        ),
    ]

    def undo_all() -> None:
        for each in undo:
            each()

    return undo_all


def _sync(request: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(request)
    def traced(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        with _ModelCall(options, kwargs) as call:
            return call.returned(request(self, cast_to, options, *args, **kwargs))

    return traced


def _async(request: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(request)
    async def traced(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        with _ModelCall(options, kwargs) as call:
            return call.returned(await request(self, cast_to, options, *args, **kwargs))

    return traced


class _ModelCall:
    """A request while it is made; without an op if it is not recorded."""

    def __init__(self, options: Any, kwargs: dict[str, Any]) -> None:
        self._op = _begin(options, kwargs) if is_recording() else None

    def __enter__(self) -> _ModelCall:
        self._before = None if self._op is None else self._op.resume()
        return self

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        if self._op is not None:
            if failure is not None:
                self._op.failed(failure)
            scope.leave(self._before)

    def returned(self, result: Any) -> Any:
        op = self._op
        if op is None:
            return result
        try:
            response = getattr(result, "http_response", None) or getattr(result, "response", None)
            if response is None or not hasattr(response, "iter_bytes"):
                op.finish(result)
            elif hasattr(response, "_content"):  # it was read already
                op.finish(value_of(response.content))
            else:
                _follow(op, response)
        except Exception:
            caught("model call")
        return result


def _begin(options: Any, kwargs: dict[str, Any]) -> OpenOp | None:
    try:
        name = call_name(str(options.method), str(options.url))
        if name is None:
            return None
        body, more = options.json_data, getattr(options, "extra_json", None)
        inputs = {**body, **(more or {})} if isinstance(body, dict) else body
        return begin_turn(name, inputs, is_stream=bool(kwargs.get("stream")))
    except Exception:
        caught("model call")
        return None


def _retry(sleep: Callable[..., Any]) -> Callable[..., Any]:
    """An attempt that failed becomes an op inside its call, as long as the SDK waits after it."""
    traced = rollout_trace_op(name="retry", inputs=_attempt)(sleep)

    @functools.wraps(sleep)
    def choose(*args: Any, **kwargs: Any) -> Any:
        here = scope.current.get()
        is_model_call = isinstance(here, OpenOp) and here.is_model_call
        return (traced if is_model_call else sleep)(*args, **kwargs)

    return choose


def _attempt(arguments: dict[str, Any]) -> dict[str, Any]:
    response, retries = arguments.get("response"), arguments.get("retries_taken")
    about = {"attempt": retries + 1 if isinstance(retries, int) else retries}
    if response is None:
        return {**about, "error": "no response"}
    try:
        body: Any = value_of(response.content)
    except Exception:  # it was not read before it was closed
        body = None
    return {**about, "status": response.status_code, "body": body}


class _Body:
    """What was handed out of a body so far. A context for whoever reads it to the end."""

    def __init__(self, op: OpenOp, is_events: bool) -> None:
        self._op = op
        self._events = Events() if is_events else None
        self._whole = bytearray()
        self._newest = b""
        """The last piece, which is not looked at before its reader is back."""
        self._is_waiting = False
        """The HTTP library is at work: if it closes the response, that is the end of the body, or a failure."""

    def __enter__(self) -> _Body:
        self.asked_for_more()
        return self

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        self._is_waiting = False
        if failure is None:
            self._finish(is_whole=True)
        elif isinstance(failure, GeneratorExit):
            self.closed()
        else:
            self._look()
            self._op.failed(failure)

    def handed_out(self, chunk: bytes) -> bytes:
        self._is_waiting = False
        self._newest = chunk
        return chunk

    def asked_for_more(self) -> None:
        self._look()
        self._is_waiting = True

    def closed(self) -> None:
        """Nobody will read on; perhaps because all that matters was read."""
        if not self._is_waiting:
            self._finish(is_whole=False)

    def _look(self) -> None:
        chunk, self._newest = self._newest, b""
        if not chunk or not self._op.is_open:
            return
        try:
            if self._events is None:
                self._whole += chunk
            else:
                for event in self._events.feed(chunk):
                    self._op.yielded(event)
        except Exception:
            caught("stream of a model call")

    def _finish(self, *, is_whole: bool) -> None:
        self._look()
        if not self._op.is_open:
            return
        try:
            if self._events is None:
                self._op.finish(value_of(bytes(self._whole)) if self._whole else None)
                return
            for event in self._events.rest():
                self._op.yielded(event)
            if is_whole or self._events.is_done:
                self._op.finish()
            else:
                self._op.left()
        except Exception:
            caught("stream of a model call")


def _follow(op: OpenOp, response: Any) -> None:
    """Look at the body of a response while somebody reads it: all decoded bytes come from one method of it."""
    op.is_stream = "text/event-stream" in response.headers.get("content-type", "")
    body = _Body(op, op.is_stream)
    iterate, iterate_async = response.iter_bytes, response.aiter_bytes
    close, close_async = response.close, response.aclose

    def iter_bytes(*args: Any, **kwargs: Any) -> Iterator[bytes]:
        with body:
            for chunk in iterate(*args, **kwargs):
                yield body.handed_out(chunk)
                body.asked_for_more()

    async def aiter_bytes(*args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
        with body:
            async for chunk in iterate_async(*args, **kwargs):
                yield body.handed_out(chunk)
                body.asked_for_more()

    def close_and_end() -> None:
        try:
            close()
        finally:
            body.closed()

    async def aclose_and_end() -> None:
        try:
            await close_async()
        finally:
            body.closed()

    response.iter_bytes, response.aiter_bytes = iter_bytes, aiter_bytes
    response.close, response.aclose = close_and_end, aclose_and_end
