"""`POST /v1/traces`: what is answered when, by the rules of OTLP/HTTP.

200 only after all spans of a request are in the journal or in the spool. 400, 413 and 415 are final, 429 and 503 are
to be tried again, with `Retry-After`. Spans without a usable id are told as partial success. A body is read, unpacked
and decoded within limits.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rolltrace.collect.collector import Collector, NotKept
from rolltrace.collect.otlp import (
    BadRequest,
    Received,
    TooManyItems,
    partial_success,
    read_json,
    read_protobuf,
    status_body,
)
from rolltrace.view import Guesses, host_name, is_loopback

if TYPE_CHECKING:
    from rolltrace.view import Listening

MAX_BODY_BYTES = 32 << 20
"""Of one request as it is sent, and unpacked twice as much."""
MAX_UNPACKED_BYTES = 64 << 20
MAX_AT_ONCE = 8
"""Requests that are read at the same time; the next are told to come later."""
_SETTLE_EVERY_SEC = 1.0
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
logger = logging.getLogger("rolltrace.collect")


class _Refused(Exception):
    """A request that is not taken."""

    def __init__(self, status: int, message: str, retry_after_sec: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after_sec = status, retry_after_sec


class Server:
    """The receiver as an ASGI application."""

    def __init__(self, collector: Collector, token: str | None) -> None:
        self._collector, self._token = collector, token
        self._guesses = Guesses()
        self._at_once = 0
        routes = [
            Route("/v1/traces", self._traces, methods=["POST"]),
            Route("/v1/{signal}", self._other_signal, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        settling = asyncio.create_task(self._settle())
        try:
            yield
        finally:
            settling.cancel()
            self._collector.close()

    async def _settle(self) -> None:
        while True:
            await asyncio.sleep(_SETTLE_EVERY_SEC)
            try:
                self._collector.settle()
            except NotKept as failure:
                logger.warning("spans wait: %s", failure)
            except Exception:
                logger.exception("internal error in rolltrace collect")

    async def _traces(self, request: Request) -> Response:
        is_json = _media_type(request) == _JSON
        try:
            await self._check_sender(request)
            received = await self._received(request)
            self._collector.take(received.spans)
        except _Refused as refusal:
            return _refusal(refusal.status, str(refusal), is_json, refusal.retry_after_sec)
        except BadRequest as failure:
            return _refusal(413 if isinstance(failure, TooManyItems) else 400, str(failure), is_json)
        except NotKept as failure:
            return _refusal(503, str(failure), is_json, 5)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as failure:
            logger.exception("internal error in rolltrace collect")
            return _refusal(500, f"internal error in rolltrace: {type(failure).__name__}", is_json)
        body = partial_success(received.rejected, received.why, is_json=is_json)
        return Response(body, media_type=_JSON if is_json else _PROTOBUF)

    async def _other_signal(self, request: Request) -> Response:
        signal = request.path_params["signal"][:40]
        return _refusal(404, f"rolltrace collect takes traces, not {signal}", _media_type(request) == _JSON)

    async def _check_sender(self, request: Request) -> None:
        """Only programs of this machine, or those that show the token. A page in a browser is neither."""
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") != "none":
            raise _Refused(403, "pages in a browser may not send spans")
        if self._token is None:
            host = request.headers.get("host", "")
            if not is_loopback(host_name(host)):
                raise _Refused(421, f"this receiver does not answer for the host {host[:100]!r}")
            return
        shown = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        client = request.client.host if request.client is not None else ""
        if not await self._guesses.may_try(client):
            raise _Refused(429, "too many wrong tokens", 1)
        if not hmac.compare_digest(shown.encode(), self._token.encode()):
            self._guesses.wrong(client)
            hint = "set OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN"
            raise _Refused(401, f"this receiver needs its token; {hint}")

    async def _received(self, request: Request) -> Received:
        kind = _media_type(request)
        if kind not in (_PROTOBUF, _JSON):
            raise _Refused(415, f"Content-Type must be {_PROTOBUF} or {_JSON}, not {kind[:60]!r}")
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", "deflate"):
            raise _Refused(415, f"Content-Encoding must be gzip, deflate or none, not {encoding[:60]!r}")
        if self._at_once >= MAX_AT_ONCE:
            raise _Refused(429, "too many requests at once", 1)
        self._at_once += 1
        try:
            body = await _body(request)
            unpacked = body if encoding == "identity" else _unpacked(body)
        finally:
            self._at_once -= 1
        return read_json(unpacked) if kind == _JSON else read_protobuf(unpacked)


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _Refused(413, f"a request has at most {MAX_BODY_BYTES:,} bytes, not {length[:20]}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _Refused(413, f"a request has at most {MAX_BODY_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _unpacked(body: bytes) -> bytes:
    """A body that was compressed with gzip or zlib, never more than is allowed of it."""
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        unpacked = inflate.decompress(body, MAX_UNPACKED_BYTES)
    except zlib.error as failure:
        raise BadRequest(f"not what its Content-Encoding says: {failure}") from None
    if inflate.unconsumed_tail:
        raise _Refused(413, f"a request has at most {MAX_UNPACKED_BYTES:,} bytes when it is unpacked")
    if not inflate.eof:
        raise BadRequest("the compressed body is cut off")
    return unpacked


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _refusal(status: int, message: str, is_json: bool, retry_after_sec: int | None = None) -> Response:
    headers = {} if retry_after_sec is None else {"Retry-After": str(retry_after_sec)}
    body = status_body(message, is_json=is_json)
    return Response(body, status, media_type=_JSON if is_json else _PROTOBUF, headers=headers)


def serve_collector(collector: Collector, listening: Listening, token: str | None) -> None:
    """Answer until a signal ends it."""
    import uvicorn

    from rolltrace.view import Connection

    config = uvicorn.Config(
        Server(collector, token).app, log_level="error", access_log=False, server_header=False, lifespan="on",
        http=Connection, ws="none", timeout_graceful_shutdown=2,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening.socket])
