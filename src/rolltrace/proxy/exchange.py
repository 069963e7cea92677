"""One request and its answer on their way back to the agent, and the op that they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.instruments import Events, OpenOp, value_of
from rolltrace.proxy.address import Address
from rolltrace.proxy.credentials import Credentials, StreamCleaner
from rolltrace.proxy.enrich import StreamEditor, takes_out
from rolltrace.proxy.sessions import Sessions
from rolltrace.proxy.upstream import HOP_BY_HOP, Response, UpstreamError
from rolltrace.record import Error

if TYPE_CHECKING:
    from starlette.types import Message, Send


MAX_ANSWER_BYTES = 64 << 20
"""Of an answer that is no stream, as much is recorded; more is passed on and counted as lost."""
ANSWER_TOO_LARGE = "answer_too_large"


class Exchange:
    """One of them. Nothing of it raises but what the upstream and the agent's connection do."""

    def __init__(self, credentials: Credentials) -> None:
        self._op: OpenOp | None = None
        """None if nothing is recorded."""
        self.asked: dict[str, Any] | None = None
        """What the agent asked, if more was asked of the upstream."""
        self._credentials = credentials
        self._cleaner = StreamCleaner(credentials)

    def begin(self, sessions: Sessions, name: str, asked: Any, headers: Mapping[str, str], address: Address) -> None:
        """Never raises: what cannot be recorded is passed on all the same."""
        recorder = scope.recorder
        if recorder is None:
            return
        try:
            conversation = sessions.conversation(recorder, address.context, headers, name, asked)
            if conversation is None:
                return
            attempt = headers.get("x-stainless-retry-count", "0")
            inputs = self._credentials.clean(asked)
            if isinstance(asked, dict) and attempt.isdigit() and int(attempt):
                inputs = {**inputs, "attempt": int(attempt) + 1}
            self._op = OpenOp(name, "llm", inputs, conversation.place)
            self._op.conversation = conversation
        except Exception:
            caught("proxied call")

    async def hand_back(self, response: Response, send: Send) -> None:
        is_readable = response.header(b"content-encoding") in (b"", b"identity") and response.status == 200
        is_events = response.header(b"content-type").startswith(b"text/event-stream")
        edits = self.asked is not None and is_readable
        body, held = response.body(), bytearray()
        if edits and not is_events:  # all of it at once: its length is another
            async for chunk in body:
                held += chunk
                if len(held) > MAX_ANSWER_BYTES:  # too much to be edited: the agent gets what it did not ask for, too
                    break
            else:
                return await self._hand_back_edited(bytes(held), response, send)
        editor = StreamEditor(self.asked) if edits and is_events and self.asked is not None else None
        await send(_start(response, {b"content-length": b""} if editor is not None else {}))
        events = Events() if is_events and is_readable else None
        copy = _Copy()
        copy.add(held)
        if held:
            await send({"type": "http.response.body", "body": bytes(held), "more_body": True})
        if self._op is not None and events is not None:
            self._op.is_stream = True
        async for chunk in body:
            out = chunk if editor is None else editor.edited(chunk)
            if out:  # waits while the agent does not read: then nothing is read from the upstream either
                await send({"type": "http.response.body", "body": out, "more_body": True})
            if self._op is not None and self._op.is_open:
                if events is None:
                    copy.add(chunk)
                else:
                    self._heard(events.feed(chunk))
        if editor is not None and (rest := editor.rest()):
            await send({"type": "http.response.body", "body": rest, "more_body": True})
        if events is not None:
            self._heard(events.rest())
            self._end_stream(events)
        else:
            self._read(copy, response)
        await send({"type": "http.response.body", "body": b""})
        return None

    async def _hand_back_edited(self, whole: bytes, response: Response, send: Send) -> None:
        copy = _Copy()
        copy.add(whole)
        self._read(copy, response)
        answer = value_of(whole)
        if isinstance(answer, dict | list) and self.asked is not None:
            whole = msgspec.json.encode(takes_out(self.asked, answer))
        await send(_start(response, {b"content-length": str(len(whole)).encode()}))
        await send({"type": "http.response.body", "body": whole})

    def _heard(self, events: list[Any]) -> None:
        if self._op is not None and self._op.is_open:
            self._keep(self._cleaner.feed(events))
            self._op.write_so_far()

    def _keep(self, events: list[Any]) -> None:
        if self._op is not None:
            for event in events:
                self._op.yielded(event)

    def _end_stream(self, events: Events) -> None:
        if self._op is None or not self._op.is_open:
            return
        self._keep(self._cleaner.rest())
        if events.too_long:
            self._op.count_unkept(events.too_long)
            self._lose_answer()
        self._op.finish()

    def _lose_answer(self) -> None:
        recorder = scope.recorder
        if recorder is not None and self._op is not None:
            recorder.sink.lose(ANSWER_TOO_LARGE, self._op._trajectory.step)

    def _read(self, copy: _Copy, response: Response) -> None:
        if self._op is None or not self._op.is_open:
            return
        encoding = response.header(b"content-encoding").decode("latin-1")
        if encoding not in ("", "identity"):
            self._op.finish({"content-encoding": encoding, "bytes": copy.size})
        elif copy.is_cut and response.status < 400:
            self._lose_answer()
            self._op.finish({"not_recorded": f"more than {MAX_ANSWER_BYTES:,} bytes", "bytes": copy.size})
        elif response.status < 400:
            self._op.finish(self._credentials.clean(value_of(copy.data)))
        else:
            text = self._credentials.clean_text(copy.data.decode(errors="replace"))
            self._op.is_no_turn()
            self._op.break_off(Error(f"HTTP {response.status}", text, ""), value=value_of(text.encode()))

    def broke(self, error: UpstreamError) -> None:
        if self._op is not None and self._op.is_open:
            if not self._op.is_stream:
                self._op.is_no_turn()
            self._keep(self._cleaner.rest())
            self._op.break_off(Error("UpstreamError", f"the upstream broke off: {error}", ""))

    def hung_up(self) -> None:
        if self._op is not None and self._op.is_open:
            self._keep(self._cleaner.rest())
            self._op.break_off(Error("HungUp", "the agent closed its connection", ""), "cancelled")


class _Copy:
    """What an answer holds, up to `MAX_ANSWER_BYTES`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    @property
    def is_cut(self) -> bool:
        return self.size > MAX_ANSWER_BYTES

    def add(self, chunk: bytes | bytearray) -> None:
        self.size += len(chunk)
        if not self.is_cut:
            self.data += chunk
        elif self.data:
            self.data = bytearray()  # the begin of a value is none


def _start(response: Response, instead: dict[bytes, bytes]) -> Message:
    """The head of the answer; `instead` has the headers that are others, or none if empty."""
    if response.header(b"transfer-encoding"):
        instead = {b"content-length": b"", **instead}  # its length is that of the pieces, whatever else it says
    headers = [(name, value) for name, value in response.headers if name not in HOP_BY_HOP and name not in instead] + [
        (name, value) for name, value in instead.items() if value
    ]
    return {"type": "http.response.start", "status": response.status, "headers": headers}
