"""One connection of a client. Uvicorn waits for a slow one as long as it likes; here each has its time.

- A request must arrive whole within `RECEIVE_SEC`, its head and its body (slowloris).
- What was sent must be read within `UNREAD_SEC`: an event stream that nobody reads holds its place no longer.
- Beyond `MAX_CONNECTIONS`, a connection is closed as soon as it is made.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rolltrace.view.limits import KEEP_ALIVE_SEC, MAX_CONNECTIONS, RECEIVE_SEC, UNREAD_SEC


class Connection(H11Protocol):
    """HTTP/1.1 with a time limit for each direction."""

    receive_sec = RECEIVE_SEC
    unread_sec = UNREAD_SEC
    keep_alive_sec = KEEP_ALIVE_SEC
    most_connections = MAX_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.timeout_keep_alive = self.keep_alive_sec
        self._receiving: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
            return
        self._receiving = self.loop.call_later(self.receive_sec, self._give_up)

    def data_received(self, data: bytes) -> None:
        if self._receiving is None and self._awaits_request():
            self._receiving = self.loop.call_later(self.receive_sec, self._give_up)
        super().data_received(data)
        if self._receiving is not None and not self._awaits_request():
            self._receiving = _stopped(self._receiving)

    def _awaits_request(self) -> bool:
        """Whether the head or the body of a request is not whole."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self.unread_sec, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = _stopped(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiving, self._unread = _stopped(self._receiving), _stopped(self._unread)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self.transport.abort()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer any more."""
    if timer is not None:
        timer.cancel()
    return None
