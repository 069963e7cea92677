"""Where the viewer is in the address space of a proxy.

Most proxies (JupyterHub's, code-server's, nginx with a slash at the end) take their prefix off before they pass on a
request, and do not say what it was. So pages name everything relative to themselves: a page that is asked for as
`/t/abcd` finds its files and the API one folder up, whatever stands before that in the browser. A proxy that leaves its
prefix on needs `--root-path`.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_HERE = b'="./'
"""How the built page names what is in its root."""


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


def page_at(root: str, page: bytes) -> bytes:
    """A built page whose files are found from where it was asked for."""
    return page.replace(_HERE, b'="' + root.encode())


def _raw(scope: Scope) -> bytes:
    """The path as it came: a slash inside a name is no folder."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw
