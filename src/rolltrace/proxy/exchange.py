"""One request and its answer on their way back to the agent, and the op that they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.instruments import Events, OpenOp, value_of
from rolltrace.proxy.address import Address
from rolltrace.proxy.enrich import StreamEditor, takes_out
from rolltrace.proxy.sessions import Sessions
from rolltrace.proxy.upstream import HOP_BY_HOP, Response, UpstreamError
from rolltrace.record import Error

if TYPE_CHECKING:
    from starlette.types import Message, Send


class Exchange:
    """One of them. Nothing of it raises but what the upstream and the agent's connection do."""

    def __init__(self) -> None:
        self._op: OpenOp | None = None
        """None if nothing is recorded."""
        self.asked: dict[str, Any] | None = None
        """What the agent asked, if more was asked of the upstream."""
        self._key = ""

    def begin(self, sessions: Sessions, name: str, asked: Any, headers: Mapping[str, str], address: Address) -> None:
        """Never raises: what cannot be recorded is passed on all the same."""
        recorder = scope.recorder
        if recorder is None:
            return
        try:
            self._key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
            conversation = sessions.conversation(recorder, address.context, headers, name, asked)
            if conversation is None:
                return
            attempt = headers.get("x-stainless-retry-count", "0")
            inputs = asked
            if isinstance(asked, dict) and attempt.isdigit() and int(attempt):
                inputs = {**asked, "attempt": int(attempt) + 1}
            self._op = OpenOp(name, "llm", inputs, conversation.place)
            self._op.conversation = conversation
        except Exception:
            caught("proxied call")

    async def hand_back(self, response: Response, send: Send) -> None:
        is_events = response.header(b"content-type").startswith(b"text/event-stream")
        is_plain = response.header(b"content-encoding") in (b"", b"identity")
        edits = self.asked is not None and is_plain and response.status == 200
        body = response.body()
        if edits and not is_events:  # all of it at once: its length is another
            whole = b"".join([chunk async for chunk in body])
            self._read(whole, response)
            answer = value_of(whole)
            if isinstance(answer, dict | list) and self.asked is not None:
                whole = msgspec.json.encode(takes_out(self.asked, answer))
            await send(_start(response, {b"content-length": str(len(whole)).encode()}))
            return await send({"type": "http.response.body", "body": whole})
        editor = StreamEditor(self.asked) if edits and self.asked is not None else None
        await send(_start(response, {b"content-length": b""} if editor is not None else {}))
        events = Events() if is_events and is_plain and response.status == 200 else None
        copy = bytearray()
        if self._op is not None and events is not None:
            self._op.is_stream = True
        async for chunk in body:
            out = chunk if editor is None else editor.edited(chunk)
            if out:  # waits while the agent does not read: then nothing is read from the upstream either
                await send({"type": "http.response.body", "body": out, "more_body": True})
            if self._op is not None and self._op.is_open:
                if events is None:
                    copy += chunk
                else:
                    self._heard(events.feed(chunk))
        if editor is not None and (rest := editor.rest()):
            await send({"type": "http.response.body", "body": rest, "more_body": True})
        if events is not None:
            self._heard(events.rest())
            if self._op is not None:
                self._op.finish()
        else:
            self._read(bytes(copy), response)
        await send({"type": "http.response.body", "body": b""})
        return None

    def _heard(self, events: list[Any]) -> None:
        if self._op is not None:
            for event in events:
                self._op.yielded(event)

    def _read(self, whole: bytes, response: Response) -> None:
        if self._op is None or not self._op.is_open:
            return
        encoding = response.header(b"content-encoding").decode("latin-1")
        if encoding not in ("", "identity"):
            self._op.finish({"content-encoding": encoding, "bytes": len(whole)})
        elif response.status < 400:
            self._op.finish(value_of(whole))
        else:
            text = whole.decode(errors="replace")
            if len(self._key) > 3:
                text = text.replace(self._key, "[key]")  # some servers quote it
            self._op.is_no_turn()
            self._op.break_off(Error(f"HTTP {response.status}", text, ""), value=value_of(text.encode()))

    def broke(self, fault: UpstreamError) -> None:
        if self._op is not None and self._op.is_open:
            if not self._op.is_stream:
                self._op.is_no_turn()
            self._op.break_off(Error("UpstreamError", f"the upstream broke off: {fault}", ""))

    def hung_up(self) -> None:
        if self._op is not None and self._op.is_open:
            self._op.break_off(Error("HungUp", "the agent closed its connection", ""), "cancelled")


def _start(response: Response, instead: dict[bytes, bytes]) -> Message:
    """The head of the answer; `instead` has the headers that are others, or none if empty."""
    headers = [(name, value) for name, value in response.headers if name not in HOP_BY_HOP and name not in instead] + [
        (name, value) for name, value in instead.items() if value
    ]
    return {"type": "http.response.start", "status": response.status, "headers": headers}
