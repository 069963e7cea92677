"""The server behind the proxy: HTTP/1.1 with back pressure, over the parser that the viewer's server brings along.

Bytes of a body are read from the connection when they are asked for, and not before: an agent that reads slowly slows
the server down. They stay as they are, compressed or not.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import h11

from rolltrace.errors import ConfigError

Headers = list[tuple[bytes, bytes]]
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
     b"trailer", b"transfer-encoding", b"upgrade"}
)  # fmt: skip
"""Headers about one connection, which are not passed on."""
_READ_BYTES = 64 << 10
_CONNECT_SEC = 30.0
_MAX_IDLE = 64
_MAX_IDLE_SEC = 4.0
"""Servers close connections after five seconds (uvicorn, Node) or later: a call must not be sent into one of those."""
_REPEATABLE = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class UpstreamError(ConnectionError):
    """The server cannot be reached, or broke off."""


class Upstream:
    """One server, and the idle connections to it."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            ConfigError: this is no address.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"--upstream is an address such as https://api.anthropic.com, not {url!r}")
        try:
            self._port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise ConfigError(f"--upstream has no port that can be: {url!r}") from None
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.authority = parts.netloc.rpartition("@")[2].encode()
        self.prefix = parts.path.rstrip("/")
        self._idle: list[_Connection] = []

    async def ask(self, method: bytes, target: bytes, headers: Headers, body: AsyncIterator[bytes] | bytes) -> Response:
        """Send a request; the answer is there as soon as its head is.

        Raises:
            UpstreamError: there is no answer.
        """
        while True:
            connection, is_fresh = await self._connection()
            try:
                return await connection.ask(method, target, headers, body)
            except UpstreamError:
                connection.close()
                # A server may close an idle connection at any time. But one that has read a call may have worked on it,
                # and is paid for it: only a request that changes nothing is sent a second time.
                if is_fresh or not isinstance(body, bytes) or (connection.has_sent and method not in _REPEATABLE):
                    raise
            except BaseException:
                connection.close()
                raise

    async def _connection(self) -> tuple[_Connection, bool]:
        await asyncio.sleep(0)  # so that it is known which of them the server has closed
        while self._idle:
            idle = self._idle.pop()
            if idle.is_usable:
                return idle, False
            idle.close()
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=_READ_BYTES), _CONNECT_SEC
            )
        except (OSError, asyncio.TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UpstreamError(f"{self._host}:{self._port} cannot be reached: {reason}") from None
        return _Connection(self, reader, writer), True

    def give_back(self, connection: _Connection) -> None:
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()


class Response:
    """The head of an answer, and its body while it comes."""

    def __init__(self, connection: _Connection, head: h11.Response) -> None:
        self.status: int = head.status_code
        self.headers: Headers = list(head.headers)
        self._connection = connection

    def header(self, name: bytes) -> bytes:
        return next((value for each, value in self.headers if each == name), b"")

    async def body(self) -> AsyncIterator[bytes]:
        """The bytes of the body as they come.

        Raises:
            UpstreamError: it broke off.
        """
        while True:
            event = await self._connection.next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._connection.release(is_read=True)
                return

    def close(self) -> None:
        """Nobody wants the rest: the server is told by a closed connection. Nothing happens if all was read."""
        self._connection.release(is_read=False)


class _Connection:
    def __init__(self, upstream: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._upstream = upstream
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT)
        self._is_released = True
        self._idle_since = 0.0
        self.has_sent = False
        """Some of the request that it was last used for may have reached the server."""

    @property
    def is_usable(self) -> bool:
        is_old = time.monotonic() - self._idle_since > _MAX_IDLE_SEC
        return not is_old and not self._reader.at_eof() and not self._writer.is_closing()

    async def ask(self, method: bytes, target: bytes, headers: Headers, body: AsyncIterator[bytes] | bytes) -> Response:
        self._is_released = self.has_sent = False
        try:
            self._send(h11.Request(method=method, target=target, headers=headers))
            if isinstance(body, bytes):
                if body:
                    self._send(h11.Data(data=body))
            else:
                async for chunk in body:
                    self._send(h11.Data(data=chunk))
                    await self._writer.drain()
            self._send(h11.EndOfMessage())
            await self._writer.drain()
        except h11.LocalProtocolError as error:
            raise UpstreamError(f"this cannot be sent on: {error}") from None
        except OSError:
            pass  # it may have answered before it closed
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response):
                return Response(self, event)

    def _send(self, event: h11.Event) -> None:
        data = self._protocol.send(event)
        if data:
            self.has_sent = True
            self._writer.write(data)

    async def next_event(self) -> h11.Event:
        try:
            while True:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA:
                    self._protocol.receive_data(await self._reader.read(_READ_BYTES))
                elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                    raise UpstreamError("it closed the connection")
                else:
                    assert not isinstance(event, type)
                    return event
        except h11.RemoteProtocolError as error:
            raise UpstreamError(f"it broke off: {error}") from None
        except OSError as error:
            raise UpstreamError(f"it broke off: {error.strerror or error}") from None

    def release(self, *, is_read: bool) -> None:
        """Nobody reads on: it is used again if all was read and both sides want to, and closed otherwise."""
        if self._is_released:
            return
        self._is_released = True
        if is_read and self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
            self._idle_since = time.monotonic()
            self._upstream.give_back(self)
        else:
            self.close()

    def close(self) -> None:
        self._writer.transport.abort()
