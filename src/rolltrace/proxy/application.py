"""The proxy itself: each request goes on to the upstream and its answer back, and a model call becomes an op."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import ClientDisconnect, Request

from rolltrace._guard import logger
from rolltrace.capture import scope as capture_scope
from rolltrace.instruments import GEMINI, call_name, may_be_call, value_of, with_model
from rolltrace.proxy.address import CONTEXT_HEADER, TOKEN_HEADER, Address, address_of
from rolltrace.proxy.credentials import Credentials
from rolltrace.proxy.enrich import asks_more
from rolltrace.proxy.exchange import Exchange
from rolltrace.proxy.sessions import Sessions
from rolltrace.proxy.upstream import HOP_BY_HOP, Headers, Upstream, UpstreamError
from rolltrace.view import Access, Guesses

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from rolltrace.view import Listening

_OURS = frozenset({CONTEXT_HEADER.encode(), TOKEN_HEADER.encode()})
_KEYS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key"})
_USUAL_KEYS = {"anthropic.messages": b"x-api-key", GEMINI: b"x-goog-api-key"}
UNRECORDED = "unrecorded_request"
_MAX_PATHS_SAID = 100
_MAX_HEAD_BYTES = 256 << 10
_KEEP_ALIVE_SEC = 75
_MAX_CALL_BYTES = 256 << 20
"""A request to a model is read whole before it goes on: it is recorded, and what is asked may be more."""


class Proxy:
    """An ASGI application."""

    def __init__(self, upstream: Upstream, access: Access, *, key: str | None = None, enrich: bool = False) -> None:
        """`key`: what the upstream is shown in the place of an agent's own key."""
        self._upstream = upstream
        self._access = access
        self._key = key
        self._enrich = enrich
        self._guesses = Guesses()
        self._sessions = Sessions()
        self._has_refused_websocket = False
        self._paths_said: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = request.headers
        if "content-length" in headers and "transfer-encoding" in headers:
            # Whoever stands before us may have read another length: what follows the body may be a request for it.
            what = "a request has a Content-Length or a Transfer-Encoding, not both"
            return await _answer(send, 400, what, (b"connection", b"close"))
        address = address_of(scope["path"], headers)
        refusal = await self._refusal(request, address)
        if refusal is not None:
            return await _answer(send, *refusal)
        if headers.get("upgrade", "").lower() == "websocket":
            return await self._refuse_websocket(send, address)
        with suppress(ClientDisconnect):
            await self._pass_on(request, address, receive, send)
        return None

    async def _refusal(self, request: Request, address: Address) -> tuple[int, str] | None:
        """The rules of the viewer: no page of a browser may ask, and who is not on this machine shows the token."""
        headers = request.headers
        host = headers.get("host", "")
        if not self._access.knows(host):
            return 421, f"this proxy does not answer for the host {host[:100]!r}"
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            return 403, "a web page may not ask this proxy"
        if self._access.token is None or self._access.is_token(address.token):
            return None
        client = request.client.host if request.client is not None else ""
        if not address.token:
            return 401, "this proxy needs its token: in the path, /k/TOKEN/, or in x-rolltrace-token"
        if not await self._guesses.may_try(client):
            return 429, "too many wrong tokens"
        self._guesses.wrong(client)
        return 401, "this is not the token of this proxy"

    async def _refuse_websocket(self, send: Send, address: Address) -> None:
        """Agents read 426 as "ask over HTTP": Codex does so at once, where it tries again five times after others."""
        if not self._has_refused_websocket:
            self._has_refused_websocket = True
            logger.warning(
                "an agent asked for a WebSocket (%s), which is not recorded: it is told to use HTTP (426)", address.path
            )
        what = "rolltrace proxy records HTTP, not WebSockets: send the same request by POST"
        await _answer(send, 426, what, (b"upgrade", b"HTTP/1.1"))

    async def _pass_on(self, request: Request, address: Address, receive: Receive, send: Send) -> None:
        name, headers = call_name(request.method, address.path), request.headers
        exchange = Exchange(Credentials(headers, request.scope["query_string"].decode("latin-1"), self._key or ""))
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        body: AsyncIterator[bytes] | bytes = request.stream() if has_body else b""
        sent = self._headers(headers.raw, address, name)
        if name is None and may_be_call(request.method, address.path):
            self._say_unrecorded(address.path)
        if name is not None:
            raw = await _whole(request)
            if raw is None:
                return await _answer(send, 413, f"a model call has at most {_MAX_CALL_BYTES:,} bytes")
            asked = value_of(raw)
            body = raw
            if self._enrich and isinstance(asked, dict):
                more = asks_more(name, asked)
                if more is not asked:
                    body = msgspec.json.encode(more)
                    exchange.asked = asked
            sent = [each for each in sent if each[0] != b"content-length"]
            sent.append((b"content-length", str(len(body)).encode()))
            exchange.begin(self._sessions, name, with_model(name, address.path, asked), headers, address)
        target = (self._upstream.prefix + _raw_path(request.scope, address)).encode("latin-1")
        watcher = asyncio.create_task(_hung_up(receive)) if name is not None or not body else None
        work = asyncio.create_task(self._forward(exchange, request.method.encode(), target, sent, body, send))
        try:
            await asyncio.wait({each for each in (work, watcher) if each}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                exchange.hung_up()
                work.cancel()
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            if watcher is not None:
                watcher.cancel()
            work.cancel()
            exchange.hung_up()

    def _say_unrecorded(self, path: str) -> None:
        """A request that may have asked a model went by: said once for each path, and counted."""
        if capture_scope.recorder is not None:
            capture_scope.recorder.sink.lose(UNRECORDED, None)
        if path not in self._paths_said and len(self._paths_said) < _MAX_PATHS_SAID:
            self._paths_said.add(path)
            logger.warning(
                "POST %s is passed on and not recorded: it is no protocol that rolltrace proxy knows (OpenAI, "
                "Anthropic, Gemini, SGLang)", path[:200],
            )  # fmt: skip

    def _headers(self, received: Headers, address: Address, name: str | None) -> Headers:
        """What goes on; `name`: that of the model call, if it is one."""
        is_call = name is not None
        left_out = HOP_BY_HOP | _OURS | {b"host"}
        if is_call:  # what is read on the way must not be compressed
            left_out |= {b"accept-encoding"}
        shown = [name for name, _ in received if name in _KEYS]
        if address.key_is_context or (self._key is not None and not shown):
            left_out |= _KEYS
        sent = [
            (b"host", self._upstream.authority),
            *((name, value) for name, value in received if name not in left_out),
        ]
        if is_call:
            sent.append((b"accept-encoding", b"identity"))
        if self._key is not None and left_out >= _KEYS:  # where the agent has its own, else where the protocol has it
            header = shown[0] if shown else _USUAL_KEYS.get(name or "", b"authorization")
            sent.append((header, (f"Bearer {self._key}" if header == b"authorization" else self._key).encode()))
        return sent

    async def _forward(
        self, exchange: Exchange, method: bytes, target: bytes, headers: Headers,
        body: AsyncIterator[bytes] | bytes, send: Send,
    ) -> None:  # fmt: skip
        try:
            response = await self._upstream.ask(method, target, headers, body)
        except UpstreamError as error:
            exchange.broke(error)
            return await _answer(send, 502, f"the upstream of this proxy does not answer: {error}")
        try:
            await exchange.hand_back(response, send)
        except UpstreamError as error:
            exchange.broke(error)
            # Without its last piece: uvicorn then closes the connection, and the agent sees a broken answer too.
        finally:
            response.close()


async def _whole(request: Request) -> bytes | None:
    """All of the body; None if it is too much."""
    copy = bytearray()
    async for chunk in request.stream():
        copy += chunk
        if len(copy) > _MAX_CALL_BYTES:
            return None
    return bytes(copy)


async def _hung_up(receive: Receive) -> None:
    """Returns when the agent is gone, once its request is read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _raw_path(scope: Scope, address: Address) -> str:
    """The path as it was written, without what is ours, and the query."""
    written = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    path = "/" + "/".join(written.split("/")[1 + address.own_parts :])
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


async def _answer(send: Send, status: int, what: str, *more: tuple[bytes, bytes]) -> None:
    body = msgspec.json.encode({"error": {"type": "rolltrace_proxy", "message": what}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(proxy: Proxy, listening: Listening) -> None:
    """Answer until a signal ends it."""
    import uvicorn

    config = uvicorn.Config(
        proxy,
        # An answer that broke off is an error of the upstream, which is in the record: uvicorn would print a traceback.
        log_level="critical", access_log=False, server_header=False, date_header=False, lifespan="off", http="h11",
        ws="none", h11_max_incomplete_event_size=_MAX_HEAD_BYTES, timeout_keep_alive=_KEEP_ALIVE_SEC,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening.socket])
