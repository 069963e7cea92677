"""The web server: routes made from `view.endpoints`, errors as `Problem`, answers with ETags, live updates.

`view.api`, and `query` with it, is imported where it is used: see `view.lanes`.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from xxhash import xxh3_64_hexdigest

from rolltrace.errors import FilterError, NotFoundError, QueryError, RolltraceError, StoppedError, StoreError
from rolltrace.view.encoding import encoded_struct
from rolltrace.view.endpoints import ENDPOINTS, Endpoint
from rolltrace.view.lanes import Lane, Opened
from rolltrace.view.limits import MOST_STREAMS, QUICK_SEC, SLOW_SEC, STREAM_SEC
from rolltrace.view.root import WithoutPrefix, relative_root
from rolltrace.view.security import Access, Guard
from rolltrace.view.static import INDEX, StaticFile, index_at, static_files
from rolltrace.view.wire import Problem

EVERY_SEC = 0.5
"""Live updates come no faster than this ..."""
AT_LEAST_EVERY_SEC = 2.0
"""... and no slower than this, whether or not anything is new."""
_SMALLEST_COMPRESSED = 1_000
_ALWAYS_NEW = frozenset({"status", "live"})
"""What depends on the time of day has no ETag."""
logger = logging.getLogger("rolltrace.view")


class _Reply(NamedTuple):
    status: int
    body: bytes
    media_type: str
    headers: dict[str, str]


def application(store: Path, access: Access, root_path: str = "") -> ASGIApp:
    """The viewer of a store, as an ASGI application; `root_path`: what a proxy leaves before every path."""
    server = _Server(store)
    return WithoutPrefix(Guard(server.app, access), root_path)


class _Server:
    def __init__(self, store: Path) -> None:
        self._quick, self._slow = Lane(store, QUICK_SEC), Lane(store, SLOW_SEC)
        self._files = static_files()
        self._live: tuple[float, bytes] = (0.0, b"")
        self._live_lock = asyncio.Lock()
        self._streams = 0
        routes = [Route(each.path, self._handler(each), methods=["GET"]) for each in ENDPOINTS]
        routes.append(Route("/api/openapi.json", _openapi, methods=["GET"]))
        routes.append(Route("/{path:path}", self._file, methods=["GET"]))
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(self._warm_up())
        yield
        warming.cancel()
        self._quick.close()
        self._slow.close()

    async def _warm_up(self) -> None:
        """Open the store while the browser still starts: the first question is the one that takes longest."""
        try:
            await self._quick.ask(lambda opened: opened.store.experiments(), _never)
        except RolltraceError:  # whoever asks is told so
            pass

    def _handler(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        if endpoint.name == "events":
            return self._events

        async def handle(request: Request) -> Response:
            try:
                arguments = _arguments(endpoint, request)
                lane = self._slow if _is_slow(endpoint, arguments) else self._quick
                return _response(
                    await lane.ask(lambda opened: _reply(endpoint, request, arguments, opened), _left(request))
                )
            except Exception as fault:
                return _response(_problem(fault))

        return handle

    async def _file(self, request: Request) -> Response:
        path = request.url.path
        file = self._files.get(path)
        if file is None:
            if path == "/api" or path.startswith(("/api/", "/assets/")):
                return _response(
                    _json(404, encoded_struct(Problem("not_found", f"there is nothing at {path[:200]!r}")))
                )
            # A page: its address means something to the application in the browser.
            file = index_at(relative_root(request.scope), self._files[INDEX])
        return _static(file, request)

    async def _events(self, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            return _response(_json(503, encoded_struct(Problem("busy", "too many pages wait for live updates"))))
        stream = self._updates(time.monotonic() + STREAM_SEC)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _updates(self, until: float) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            sent, sent_at = "", 0.0
            while time.monotonic() < until:
                version, body = await self._live_body()
                if version != sent or time.monotonic() - sent_at >= AT_LEAST_EVERY_SEC:
                    sent, sent_at = version, time.monotonic()
                    yield body
                await asyncio.sleep(EVERY_SEC)
        finally:
            self._streams -= 1

    async def _live_body(self) -> tuple[str, bytes]:
        """The newest event, made once for all pages that wait; and what tells it from the one before."""
        async with self._live_lock:
            made_at, body = self._live
            if time.monotonic() - made_at >= EVERY_SEC / 2:
                try:
                    body = await self._quick.ask(_live_event, _never)
                except Exception as fault:
                    problem = _problem(fault)
                    body = b"store\nevent: problem\ndata: " + problem.body + b"\n\n"
                self._live = (time.monotonic(), body)
        version, _, event = body.partition(b"\n")
        return version.decode(), event


def _live_event(opened: Opened) -> bytes:
    from rolltrace.view import api

    version = opened.store.version()
    answer = api.live(api.Asked(opened.store, opened.loaded, None, {}))
    return version.encode() + b"\nevent: live\ndata: " + answer.body + b"\n\n"


async def _never() -> None:
    await asyncio.Event().wait()


def _left(request: Request) -> Callable[[], Awaitable[object]]:
    """Returns when the client has closed the connection."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return left


def _arguments(endpoint: Endpoint, request: Request) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), endpoint.request, strict=False)
    except msgspec.ValidationError as error:
        raise QueryError(str(error).replace("Object contains", "the request has").replace("$.", "")) from None


def _is_slow(endpoint: Endpoint, arguments: Any) -> bool:
    """Whether a question reads payloads of many trajectories."""
    where = getattr(arguments, "where", None)
    if where is None:
        return endpoint.name == "search"

    from rolltrace.query import compile_where
    from rolltrace.view import api

    try:
        needs = compile_where(api.written(where)).needs
    except FilterError:  # whoever asks is told so
        return False
    return endpoint.name == "search" or "text" in needs


def _reply(endpoint: Endpoint, request: Request, arguments: Any, opened: Opened) -> _Reply:
    from rolltrace.view import api

    headers = {"Cache-Control": "no-store"}
    etag, answer = "", None
    if endpoint.name not in _ALWAYS_NEW:
        state = f"{_version(endpoint, request, arguments, opened)} {request.url.path}?{request.url.query}"
        etag = f'W/"{xxh3_64_hexdigest(state.encode())}"'
        headers = {"Cache-Control": "private, no-cache", "ETag": etag, "Vary": "Accept-Encoding"}
        if etag in request.headers.get("if-none-match", ""):
            return _Reply(304, b"", "application/json", headers)
        answer = opened.answers.get(etag)
    if answer is None:
        answer = api.HANDLERS[endpoint.name](api.Asked(opened.store, opened.loaded, arguments, request.path_params))
        if etag:
            opened.answers.keep(etag, answer)
    body = answer.body
    if answer.filename is not None:
        headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
    if len(body) >= _SMALLEST_COMPRESSED and _takes_gzip(request) and answer.media_type == "application/json":
        body = gzip.compress(body, 1)
        headers["Content-Encoding"] = "gzip"
    return _Reply(200, body, answer.media_type, headers)


def _version(endpoint: Endpoint, request: Request, arguments: Any, opened: Opened) -> str:
    """Of the step that an answer is about, if it is about one: other steps may move."""
    trajectory_id = request.path_params.get("trajectory_id")
    if trajectory_id is not None and endpoint.name != "trajectory":  # that one shows other steps too
        return opened.store.version(opened.loaded.place(trajectory_id).step)
    return opened.store.version(getattr(arguments, "step", None))


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _problem(fault: Exception) -> _Reply:
    if isinstance(fault, FilterError):
        from rolltrace.view import api

        return _json(400, encoded_struct(Problem("filter", **api.filter_problem(fault))))
    if isinstance(fault, StoppedError):
        return _json(503, encoded_struct(Problem("timeout", str(fault))))
    if isinstance(fault, NotFoundError):
        return _json(404, encoded_struct(Problem("not_found", str(fault))))
    if isinstance(fault, StoreError):
        return _json(503, encoded_struct(Problem("store", str(fault), hint="rolltrace doctor")))
    if isinstance(fault, RolltraceError):
        return _json(400, encoded_struct(Problem("bad_request", str(fault))))
    logger.error("internal error in rolltrace view", exc_info=fault)
    return _json(500, encoded_struct(Problem("internal", f"internal error in rolltrace: {type(fault).__name__}")))


def _json(status: int, body: bytes) -> _Reply:
    return _Reply(status, body, "application/json", {"Cache-Control": "no-store"})


def _response(reply: _Reply) -> Response:
    return Response(reply.body, reply.status, media_type=reply.media_type, headers=reply.headers)


def _static(file: StaticFile, request: Request) -> Response:
    cache = "public, max-age=31536000, immutable" if file.immutable else "no-cache"
    headers = {"Cache-Control": cache, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.compressed is not None and _takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, media_type=file.media_type, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


async def _openapi(_: Request) -> Response:
    from rolltrace.view import openapi

    return Response(msgspec.json.encode(openapi.document()), media_type="application/json")
