"""Who may ask. Every request passes `Guard` before anything else sees it.

- On loopback, the name of the host must be a loopback name: a page of another site that has its own name resolved to
  127.0.0.1 is refused (DNS rebinding). On any other address a token is needed too.
- A request that another site's page makes is refused: `Origin` must be the host itself, `Sec-Fetch-Site` this site.
- Only GET and HEAD, and a POST to what `view.writes` names, under its rules.
- No script but our own files runs in the pages, whatever was traced (Content-Security-Policy).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rolltrace.view.encoding import encoded_struct
from rolltrace.view.listen import is_loopback
from rolltrace.view.wire import Problem
from rolltrace.view.writes import forgery, is_write

HEADERS = {
    # Styles may be inline: libraries for editors and charts set them so, and a style runs no script.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN_PARAMETER = "token"


class Access(NamedTuple):
    """Who may ask."""

    token: str | None
    """What a client must show; None if everybody on this machine may ask."""
    hosts: frozenset[str]
    """Names under which the server may be asked for; any address of numbers too if there is a token."""
    cookie: str = "rolltrace"
    """Name of the cookie that holds the token; one for each port, since cookies know none."""


def access_for(host: str, port: int, token: str | None, more_hosts: Iterable[str] = ()) -> Access:
    """The access that an address to listen on stands for."""
    names = {*_LOOPBACK_NAMES, host.lower(), *(name.lower() for name in more_hosts)}
    if not is_loopback(host):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(token, frozenset(names), f"rolltrace_{port}")


class Guard:
    """Refuses what must not be answered, and adds the headers that keep pages safe."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        writes = is_write(scope["method"], scope["path"])
        if scope["method"] not in ("GET", "HEAD") and not writes:
            return _problem(405, "method", f"{scope['method'][:20]} is not allowed: nothing can be changed here")
        host = headers.get("host", "")
        if not self._knows(host):
            return _problem(
                421, "forbidden", f"this server does not answer for the host {host[:100]!r}",
                f"rolltrace view --allow-host {_name_of(host)[:100]}",
            )  # fmt: skip
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return _problem(403, "forbidden", f"a page of {origin[:100]!r} may not ask this server")
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode")
        if site in ("cross-site", "same-site") and mode != "navigate":
            return _problem(403, "forbidden", "a page of another site may not ask this server")
        if writes and (why := forgery(headers)) is not None:
            return _problem(403, "forbidden", why)
        return self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        if self._access.token is None:
            return None
        arguments = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in arguments if name == _TOKEN_PARAMETER]
        if shown and self._is_token(shown[-1]):
            rest = urlencode([(name, value) for name, value in arguments if name != _TOKEN_PARAMETER])
            # Only a path of our own: "//evil" would be another host.
            place = "/" + scope["path"].lstrip("/\\")
            redirect = RedirectResponse(place + (f"?{rest}" if rest else ""), 303)
            redirect.set_cookie(
                self._access.cookie,
                self._access.token,
                httponly=True,
                samesite="lax",
                secure=scope["scheme"] == "https",
            )
            return redirect
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self._is_token(bearer) or self._is_token(self._cookie(headers)):
            return None
        return _problem(
            401, "unauthorized", "this server needs its token", "open the link that `rolltrace view` printed"
        )

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), (self._access.token or "").encode()) and bool(shown)

    def _cookie(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._access.cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value

    def _knows(self, host: str) -> bool:
        name = _name_of(host)
        if name in self._access.hosts:
            return True
        if self._access.token is None:
            return False
        try:  # an address of numbers cannot be rebound, and there is a token
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _problem(status: int, error: str, detail: str, hint: str | None = None) -> Response:
    body = encoded_struct(Problem(error, detail, hint=hint))
    return Response(body, status, media_type="application/json", headers={"Cache-Control": "no-store"})
