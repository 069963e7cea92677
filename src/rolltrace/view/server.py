"""The web server: routes made from `view.requests`, errors as `Problem`, answers with ETags, live updates.

`view.api`, and `query` with it, is imported where it is used: see `view.stores`.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from xxhash import xxh3_64_hexdigest

from rolltrace.errors import FilterError, NotFoundError, QueryError, RolltraceError, StoppedError, StoreError
from rolltrace.query.model.store import Passing, Problem, Written
from rolltrace.view.limits import MAX_STREAMS, STREAM_SEC
from rolltrace.view.pages import INDEX, WithoutPrefix, index_at, relative_root, static_files, takes_gzip
from rolltrace.view.requests import ENDPOINTS, WRITES, Endpoint, LabelRequest, PassRequest
from rolltrace.view.security import Access, Guard, json_response
from rolltrace.view.stores import PREFIX, Home, Opened, Stores
from rolltrace.view.writes import USUAL, WriteRefused, Writing, body_of, write_labels, write_pass

if TYPE_CHECKING:
    from rolltrace.view import api

EVERY_SEC = 0.5
"""Live updates come no faster than this ..."""
AT_LEAST_EVERY_SEC = 2.0
"""... and no slower than this, whether or not anything is new."""
_SMALLEST_COMPRESSED = 1_000
_ALWAYS_NEW = frozenset({"status", "live"})
"""What depends on the time of day has no ETag."""
_OF_ALL = frozenset({"status", "experiments", "live", "compare", "jump", "sql", "filter_check", "blob"})
"""What a server of several stores answers for all of them, where the address names none."""
_NO_PAGE = re.compile(r"(?:/s/[^/]+)?/(?:api(?:/|$)|assets/)")
logger = logging.getLogger("rolltrace.view")


def application(
    stores: Path | Sequence[Path], access: Access, writing: Writing = USUAL, root_path: str = ""
) -> ASGIApp:
    """The viewer of a store, or of several, as an ASGI application; `root_path`: what a proxy leaves before paths."""
    server = _Server(Stores([stores] if isinstance(stores, Path) else stores), writing)
    return WithoutPrefix(Guard(server.app, access), root_path)


class _Server:
    def __init__(self, stores: Stores, writing: Writing) -> None:
        self._stores, self._writing = stores, writing
        self._files = static_files()
        self._live: dict[str | None, tuple[float, bytes]] = {}
        self._live_lock = asyncio.Lock()
        self._streams = 0
        routes = []
        for prefix in ("", PREFIX):
            routes += [Route(prefix + each.path, self._handler(each), methods=["GET"]) for each in ENDPOINTS]
            routes += [Route(prefix + each.path, self._writer(each), methods=["POST"]) for each in WRITES]
        routes.append(Route("/api/openapi.json", _openapi, methods=["GET"]))
        routes.append(Route("/{path:path}", self._file, methods=["GET"]))
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(self._warm_up())
        yield
        warming.cancel()
        self._stores.close()

    async def _warm_up(self) -> None:
        """Open the store while the browser still starts: the first question is the one that takes longest."""
        for home in self._stores.homes:
            try:
                await home.quick.ask(lambda opened: opened.store.experiments(), _never)
            except RolltraceError:  # whoever asks is told so
                pass

    def _handler(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        if endpoint.name == "events":
            return self._events

        async def handle(request: Request) -> Response:
            try:
                arguments = _arguments(endpoint, request)
                slow = _is_slow(endpoint, arguments)
                home = self._named(request) or self._stores.homes[0]
                return await (home.slow if slow else home.quick).work(
                    lambda: self._reply(endpoint, request, arguments, slow=slow), _left(request)
                )
            except Exception as error:
                return _problem(error)

        return handle

    def _writer(self, write: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                wanted = await body_of(request, write.request)
                named = self._named(request)

                def save() -> Written | Passing:
                    if isinstance(wanted, PassRequest):
                        home = named or self._stores.with_experiment(wanted.project, wanted.experiment)
                        return write_pass(home.opened().store, self._writing, wanted)
                    assert isinstance(wanted, LabelRequest)
                    home = named or self._stores.with_trajectory(wanted.trajectory_ids[0])
                    return write_labels(home.opened().store, self._writing, wanted)

                return json_response(200, await (named or self._stores.homes[0]).quick.work(save, _left(request)))
            except Exception as error:
                return _problem(error)

        return handle

    def _named(self, request: Request) -> Home | None:
        """The store that stands in the address.

        Raises:
            NotFoundError: there is none of this name.
        """
        name = request.path_params.get("store")
        return None if name is None else self._stores.named(name)

    def _reply(self, endpoint: Endpoint, request: Request, arguments: Any, *, slow: bool) -> Response:
        home = self._named(request)
        if home is None and self._stores.several and endpoint.name not in _OF_ALL:
            home = self._meant(request, arguments)
        opened = (home or self._stores.homes[0]).opened(slow=slow)
        return _reply(endpoint, request, self._asked(home, opened, arguments, request.path_params), opened)

    def _asked(self, home: Home | None, opened: Opened, arguments: Any, path: dict[str, Any]) -> api.Asked:
        from rolltrace.view import api

        name = home.name if home is not None and self._stores.several else None
        return api.Asked(opened.store, opened.loaded, arguments, path, self._writing, self._stores, name)

    def _meant(self, request: Request, arguments: Any) -> Home:
        """Of several stores, the one that a request without a name is about."""
        if (trajectory_id := request.path_params.get("trajectory_id")) is not None:
            return self._stores.with_trajectory(trajectory_id)
        project, experiment = (getattr(arguments, name, None) for name in ("project", "experiment"))
        if project is not None and experiment is not None:
            return self._stores.with_experiment(project, experiment)
        names = " or ".join(f"/s/{home.name}/" for home in self._stores.homes)
        raise QueryError(f"there are several stores; begin the address with that of one: {names}")

    async def _file(self, request: Request) -> Response:
        path = request.url.path
        file = self._files.get(path)
        if file is None:
            if _NO_PAGE.match(path):
                return json_response(404, Problem("not_found", f"there is nothing at {path[:200]!r}"))
            # A page: its address means something to the application in the browser.
            file = index_at(relative_root(request.scope), self._files[INDEX])
        return file.respond(request)

    async def _events(self, request: Request) -> Response:
        try:
            home = self._named(request)
        except NotFoundError as error:
            return _problem(error)
        if self._streams >= MAX_STREAMS:
            detail = f"{MAX_STREAMS} pages wait for live updates already; close some of them, or load this one again"
            # Its connection is closed, too: kept open, those of the refused would be too many for other requests.
            return json_response(503, Problem("busy", detail), {"Connection": "close", "Retry-After": "10"})
        self._streams += 1
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return _EventStream(self._updates(home), self._stream_ended, headers)

    def _stream_ended(self) -> None:
        self._streams -= 1

    async def _updates(self, home: Home | None) -> AsyncIterator[bytes]:
        sent, sent_at, until = "", 0.0, time.monotonic() + STREAM_SEC
        while time.monotonic() < until:
            version, body = await self._live_body(home)
            if version != sent or time.monotonic() - sent_at >= AT_LEAST_EVERY_SEC:
                sent, sent_at = version, time.monotonic()
                yield body
            await asyncio.sleep(EVERY_SEC)

    async def _live_body(self, home: Home | None) -> tuple[str, bytes]:
        """The newest event, made once for all pages that wait; and what tells it from the one before."""
        async with self._live_lock:
            key = None if home is None else home.name
            made_at, body = self._live.get(key, (0.0, b""))
            if time.monotonic() - made_at >= EVERY_SEC / 2:
                try:
                    body = await (home or self._stores.homes[0]).quick.work(lambda: self._live_event(home), _never)
                except Exception as error:
                    body = b"store\nevent: problem\ndata: " + bytes(_problem(error).body) + b"\n\n"
                self._live[key] = (time.monotonic(), body)
        version, _, event = body.partition(b"\n")
        return version.decode(), event

    def _live_event(self, home: Home | None) -> bytes:
        from rolltrace.view import api

        asked = self._asked(home, (home or self._stores.homes[0]).opened(), None, {})
        version = " ".join(each.store.version() for _, each in asked.every())
        return version.encode() + b"\nevent: live\ndata: " + api.encode(api.live(asked)) + b"\n\n"


class _EventStream(StreamingResponse):
    """Counted from when it is promised until it is over: if its client left before its first byte, too."""

    def __init__(self, updates: AsyncIterator[bytes], ended: Callable[[], None], headers: dict[str, str]) -> None:
        super().__init__(updates, media_type="text/event-stream", headers=headers)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


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
    return endpoint.name in ("search", "share") or "text" in needs


def _reply(endpoint: Endpoint, request: Request, asked: api.Asked, opened: Opened) -> Response:
    from rolltrace.query import check_limit
    from rolltrace.view import api

    headers = {"Cache-Control": "no-store"}
    state = f"{_version(endpoint, request, asked, opened)} {request.url.path}?{request.url.query}"
    if endpoint.name in _ALWAYS_NEW:
        etag = f"{state} {time.monotonic() // EVERY_SEC}"  # all who ask at the same time
    else:
        etag = f'W/"{xxh3_64_hexdigest(state.encode())}"'
        headers = {"Cache-Control": "private, no-cache", "ETag": etag, "Vary": "Accept-Encoding"}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, media_type="application/json", headers=headers)
    answer = opened.answers.get(
        etag, lambda: api.answer(endpoint.name, asked), lambda made: len(made.body), check_limit
    )
    body = answer.body
    if answer.filename is not None:
        headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
    if len(body) >= _SMALLEST_COMPRESSED and takes_gzip(request) and answer.media_type == "application/json":
        body = gzip.compress(body, 1)
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=answer.media_type, headers=headers)


def _version(endpoint: Endpoint, request: Request, asked: api.Asked, opened: Opened) -> str:
    """Of the step that an answer is about, if it is about one: other steps may move."""
    if asked.stores.several:  # many answers are about all of them
        return " ".join(home.opened().store.version() for home in asked.stores.homes)
    trajectory_id = request.path_params.get("trajectory_id")
    if trajectory_id is not None and endpoint.name != "trajectory":  # that one shows other steps too
        return opened.store.version(opened.loaded.place(trajectory_id).step)
    return opened.store.version(getattr(asked.arguments, "step", None))


_PROBLEMS: tuple[tuple[type[Exception], int, str, str | None], ...] = (
    (StoppedError, 503, "timeout", None),
    (NotFoundError, 404, "not_found", None),
    (StoreError, 503, "store", "rolltrace doctor"),
    (RolltraceError, 400, "bad_request", None),
)
"""Of each kind of error: its status, what it is called, and what to type."""


def _problem(error: Exception) -> Response:
    if isinstance(error, FilterError):
        from rolltrace.view import api

        return json_response(400, Problem("filter", **api.filter_problem(error)))
    if isinstance(error, WriteRefused):
        return json_response(403, Problem("read_only", str(error), hint=error.hint))
    for kind, status, name, hint in _PROBLEMS:
        if isinstance(error, kind):
            return json_response(status, Problem(name, str(error), hint=hint))
    logger.error("internal error in rolltrace view", exc_info=error)
    return json_response(500, Problem("internal", f"internal error in rolltrace: {type(error).__name__}"))


async def _openapi(_: Request) -> Response:
    from rolltrace.view import openapi

    return Response(msgspec.json.encode(openapi.document()), media_type="application/json")
