"""Who may ask. Every request passes `Guard` before anything else sees it.

- On loopback, the name of the host must be a loopback name: a page of another site that has its own name resolved to
  127.0.0.1 is refused (DNS rebinding). On any other address a token is needed too.
- A request that another site's page makes is refused: `Sec-Fetch-Site` must be this site, or `Origin` the host itself.
- Only GET and HEAD, and a POST to what `view.writes` names, under its rules: no route needs a check of its own.
- A request has a bounded head, and a body only if it may change something.
- No script but our own files runs in the pages, whatever was traced (Content-Security-Policy).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rolltrace.query.model.store import Problem
from rolltrace.view.limits import (
    FREE_GUESSES,
    GUESSES_SEC,
    MAX_ADDRESSES,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    MAX_SLOWED,
    SLOWED_SEC,
)
from rolltrace.view.listen import is_loopback
from rolltrace.view.pages import path_below_root, relative_root
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
_NEXT_PARAMETER = "next"
_READS = frozenset({"GET", "HEAD"})
_HOST = re.compile(
    r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<ipv6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\])(?::(?P<port>[0-9]{1,5}))?"
)
_MAX_PORT = 65535


class Access(NamedTuple):
    """Who may ask."""

    token: str | None
    """What a client must show; None if everybody on this machine may ask."""
    hosts: frozenset[str]
    """Names under which the server may be asked for; any address of numbers too if there is a token."""
    cookie: str = "rolltrace"
    """Name of the cookie that holds the token; one for each port, since cookies know none."""
    proxies: frozenset[str] = frozenset()
    """Names, with their port if it is not the usual one, of proxies whose pages may ask."""

    def knows(self, host: str) -> bool:
        """Whether the server may be asked for under what a Host header says."""
        name = host_name(host)
        if name in self.hosts:
            return True
        if self.token is None:
            return False
        try:  # an address of numbers cannot be rebound, and there is a token
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), (self.token or "").encode()) and bool(shown)


def access_for(host: str, port: int, token: str | None, more_hosts: Iterable[str] = ()) -> Access:
    """The access that an address to listen on stands for."""
    proxies = frozenset(name.lower() for name in more_hosts)
    names = {*_LOOPBACK_NAMES, host.lower(), *(host_name(name) for name in proxies)}
    if not is_loopback(host):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(token, frozenset(names), f"rolltrace_{port}", proxies)


class Guesses:
    """Wrong tokens, by the address that showed them: whoever guesses is slowed down, and nobody else is.

    After `FREE_GUESSES` wrong tokens within a minute, every request of that address waits before its token is looked
    at, and only a few may wait at once. So an address can try a handful of tokens a second, however many connections it
    opens; a person behind the same address who has the right token still comes in. For one event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, list[float]] = OrderedDict()
        self._waiting: dict[str, int] = {}

    def wrong(self, client: str) -> None:
        """The client showed a wrong token."""
        address = _network(client)
        times = self._wrong.setdefault(address, [])
        times.append(self._clock())
        del times[:-FREE_GUESSES]
        self._wrong.move_to_end(address)
        while len(self._wrong) > MAX_ADDRESSES:
            self._wrong.popitem(last=False)

    def is_slowed(self, client: str) -> bool:
        times = self._wrong.get(_network(client), [])
        return len(times) == FREE_GUESSES and self._clock() - times[0] < GUESSES_SEC

    async def may_try(self, client: str) -> bool:
        """Whether the token of this client's request is to be looked at; a client that guessed often waits for it."""
        if not self.is_slowed(client):
            return True
        address = _network(client)
        if self._waiting.get(address, 0) >= MAX_SLOWED:
            return False
        self._waiting[address] = self._waiting.get(address, 0) + 1
        try:
            await asyncio.sleep(SLOWED_SEC)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True


def _network(client: str) -> str:
    """What one person can have many addresses of: an IPv6 network of 64 bits is one client."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else client


class Guard:
    """Refuses what must not be answered, and adds the headers that keep pages safe."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._guesses = Guesses()

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

        headers = Headers(scope=scope)
        refused = (
            _size_refusal(scope, headers)
            or self._site_refusal(headers, scope["method"])
            or _write_refusal(scope, headers)
            or await self._token_refusal(scope, headers)
        )
        await (refused or self._app)(scope, receive, with_headers)

    def _site_refusal(self, headers: Headers, method: str) -> Response | None:
        host = headers.get("host", "")
        if not self._access.knows(host):
            return _problem(
                421, "forbidden", f"this server does not answer for the host {host[:100]!r}",
                f"rolltrace view --allow-host {host_name(host)[:100]}",
            )  # fmt: skip
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode")
        origin = headers.get("origin")
        # What a browser says of itself counts first: a proxy may have put another name into Host.
        is_own = site == "same-origin" or origin is None
        if not is_own and _address_of(origin or "") not in {host.lower(), *self._access.proxies}:
            return _problem(403, "forbidden", f"a page of {(origin or '')[:100]!r} may not ask this server")
        if site in ("cross-site", "same-site") and not (mode == "navigate" and method in _READS):
            return _problem(403, "forbidden", "a page of another site may not ask this server")
        return None

    async def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if self._access.token is None:
            return None
        arguments = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        linked = [value for name, value in arguments if name == _TOKEN_PARAMETER]
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        shown = [*linked[-1:], bearer, self._cookie(headers)]
        if not any(shown):
            return _no_token(401, "unauthorized", "this server needs its token")
        client = (scope.get("client") or ("",))[0]
        if not await self._guesses.may_try(client):
            return _no_token(429, "busy", f"too many wrong tokens from {client}; try again in {SLOWED_SEC:g} s")
        if linked and self._access.is_token(linked[-1]):
            return self._with_cookie(scope, [each for each in arguments if each[0] != _TOKEN_PARAMETER])
        if any(self._access.is_token(each) for each in shown[-2:]):
            return None
        self._guesses.wrong(client)
        return _no_token(401, "unauthorized", "this is not the token of this server")

    def _with_cookie(self, scope: Scope, arguments: list[tuple[str, str]]) -> Response:
        """Give the client its cookie, and send it to where it wanted to go, without the token.

        The cookie is for this viewer alone, whatever prefix a proxy puts before it: with no path of its own, a cookie
        is for the folder of the page. So a link to a page below leads to the root first, which hands out the cookie.
        """
        token, root = self._access.token or "", relative_root(scope)
        if root != "./":
            onward = f"{path_below_root(scope)}?{urlencode(arguments)}"
            return _moved(f"{root}?{urlencode({_TOKEN_PARAMETER: token, _NEXT_PARAMETER: onward})}")
        rest = urlencode([each for each in arguments if each[0] != _NEXT_PARAMETER])
        onward = dict(arguments).get(_NEXT_PARAMETER, f"?{rest}")
        # Below our own root, and nothing that a header cannot hold: "//evil" would be another host.
        redirect = _moved("./" + quote(onward.lstrip("/\\").rstrip("?"), safe="/?&=%+,;:@!$'()*~"))
        secure = scope["scheme"] == "https"
        redirect.set_cookie(self._access.cookie, token, path=None, httponly=True, samesite="lax", secure=secure)
        return redirect

    def _cookie(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._access.cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value


def _size_refusal(scope: Scope, headers: Headers) -> Response | None:
    head = len(scope["query_string"]) + len(scope["path"]) + sum(len(name) + len(value) for name, value in headers.raw)
    if head > MAX_HEAD_BYTES:
        return _problem(431, "too_large", f"the head of a request has at most {MAX_HEAD_BYTES:,} bytes, not {head:,}")
    length = headers.get("content-length", "0")
    if scope["method"] in _READS and (length != "0" or "transfer-encoding" in headers):
        return _problem(400, "bad_request", f"a {scope['method']} request has no body")
    if "transfer-encoding" in headers:
        return _problem(411, "bad_request", "a body needs its Content-Length")
    if not length.isdigit() or len(length) > 18 or int(length) > MAX_BODY_BYTES:
        return _problem(413, "too_large", f"a body has at most {MAX_BODY_BYTES:,} bytes, not {length[:20]}")
    return None


def _write_refusal(scope: Scope, headers: Headers) -> Response | None:
    if scope["method"] in _READS:
        return None
    if not is_write(scope["method"], scope["path"]):
        return _problem(405, "method", f"{scope['method'][:20]} is not allowed: nothing can be changed here")
    why = forgery(headers)
    return None if why is None else _problem(403, "forbidden", why)


def _address_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def host_name(header: str) -> str:
    """The name in a Host header, in small letters and without its port; empty if it is not a name and perhaps a port.

    Nothing else is looked for: of `evil.com@127.0.0.1` and `127.0.0.1#evil.com`, readers of URLs name different hosts.
    """
    match = _HOST.fullmatch(header)
    if match is None or int(match["port"] or 0) > _MAX_PORT:
        return ""
    return (match["name"] or match["ipv6"]).lower()


def json_response(status: int, answer: msgspec.Struct, headers: dict[str, str] | None = None) -> Response:
    """An answer that nobody may keep."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(answer), status, media_type="application/json", headers=headers)


def _problem(status: int, error: str, detail: str, hint: str | None = None) -> Response:
    return json_response(status, Problem(error, detail, hint=hint))


def _no_token(status: int, error: str, detail: str) -> Response:
    return _problem(status, error, detail, "open the link that `rolltrace view` printed")


def _moved(place: str) -> Response:
    return Response(status_code=303, headers={"Location": place, "Cache-Control": "no-store"})
