"""The files of the viewer, read from the package once, and where they are in the address space of a proxy.

A request is looked up in a table: no path reaches the disk.

Most proxies (JupyterHub's, code-server's, nginx with a slash at the end) take their prefix off before they pass on a
request, and do not say what it was. So pages name everything relative to themselves: a page that is asked for as
`/t/abcd` finds its files and the API one folder up, whatever stands before that in the browser. A proxy that leaves its
prefix on needs `--root-path`.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from xxhash import xxh3_64_hexdigest

_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
    ".json": "application/json", ".txt": "text/plain; charset=utf-8", ".map": "application/json",
    ".webmanifest": "application/manifest+json",
}  # fmt: skip
_COMPRESSED = frozenset({".html", ".js", ".css", ".svg", ".json", ".map", ".txt"})
INDEX = "/index.html"
NOT_BUILT = b"""<!doctype html><meta charset="utf-8"><title>rolltrace</title>
<p>The pages of the viewer are not built in this checkout. Build them with <code>make viewer</code>;
the data is at <a href="./api/status">api/status</a>.</p>
"""
_HERE = b'="./'
"""How the built page names what is in its root."""


class StaticFile(NamedTuple):
    """One file."""

    body: bytes
    compressed: bytes | None
    media_type: str
    etag: str
    immutable: bool
    """Its name holds a hash of its content."""

    def respond(self, request: Request) -> Response:
        """What a request for it is answered."""
        cache = "public, max-age=31536000, immutable" if self.immutable else "no-cache"
        headers = {"Cache-Control": cache, "ETag": self.etag, "Vary": "Accept-Encoding"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.compressed is not None and takes_gzip(request):
            headers["Content-Encoding"] = "gzip"
            return Response(self.compressed, media_type=self.media_type, headers=headers)
        return Response(self.body, media_type=self.media_type, headers=headers)


def static_files() -> dict[str, StaticFile]:
    """Every file of the viewer by its path in the URL."""
    root = Path(__file__).with_name("static")
    files = {f"/{each.relative_to(root).as_posix()}": each for each in root.rglob("*") if each.suffix in _TYPES}
    by_path = {
        place: _file(each.suffix, each.read_bytes(), immutable=place.startswith("/assets/"))
        for place, each in files.items()
    }
    return {INDEX: _file(".html", NOT_BUILT), **by_path}


def index_at(root: str, index: StaticFile) -> StaticFile:
    """The page, whose files are found from where it was asked for: the root is there."""
    return _file(".html", index.body.replace(_HERE, b'="' + root.encode()))


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _file(suffix: str, body: bytes, *, immutable: bool = False) -> StaticFile:
    compressed = gzip.compress(body, 6, mtime=0) if suffix in _COMPRESSED else None
    return StaticFile(body, compressed, _TYPES[suffix], f'"{xxh3_64_hexdigest(body)}"', immutable)


class WithoutPrefix:
    """Takes the prefix of a proxy off paths that begin with it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._prefix:
            if scope["path"] == self._prefix:  # its files would be looked for one folder too far up
                query = scope["query_string"].decode("latin-1")
                place = f"{self._prefix}/" + (f"?{query}" if query else "")
                await Response(status_code=308, headers={"Location": place})(scope, receive, send)
                return
            if scope["path"].startswith(f"{self._prefix}/"):
                length = len(self._prefix)
                scope = {**scope, "path": scope["path"][length:], "raw_path": _raw(scope)[length:]}
        await self._app(scope, receive, send)


def relative_root(scope: Scope) -> str:
    """The way from the page that is asked for to the root, as a browser resolves it: `./`, `../`, `../../`."""
    return "../" * (_raw(scope).count(b"/") - 1) or "./"


def path_below_root(scope: Scope) -> str:
    """The path that is asked for, as it came, without the slash before it."""
    return _raw(scope).decode("latin-1").lstrip("/\\")


def _raw(scope: Scope) -> bytes:
    """The path as it came: a slash inside a name is no folder."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw
