"""Where the viewer is in the address space of a proxy.

Most proxies (JupyterHub's, code-server's, nginx with a slash at the end) take their prefix off before they pass a request
on, and do not say what it was. So pages name everything relative to themselves: a page that is asked for as `/t/abcd`
finds its files and the API one folder up, whatever stands before that in the browser. A proxy that leaves its prefix on
needs `--root-path`.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rolltrace.errors import ConfigError

_HERE = b'="./'
"""How the built page names what is in its root."""


def checked_root_path(text: str) -> str:
    """A prefix as it stands before paths: "" or `/some/prefix`.

    Raises:
        ConfigError: it cannot be a path.
    """
    parts = text.strip("/").split("/") if text.strip("/") else []
    if not all(part.isprintable() and part.isascii() and part not in (".", "..") for part in parts) or any(
        character in text for character in "?#\\\"'<> %"
    ):
        raise ConfigError(f"--root-path is a path such as /tools/rolltrace, not {text!r}")
    return "".join(f"/{part}" for part in parts)


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
