"""One OTLP receiver over HTTP: where it is, by OpenTelemetry's own environment variables, and what its answers mean."""

from __future__ import annotations

import gzip
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from rolltrace.backends.otlp.wire import PartialSuccess, read_response
from rolltrace.errors import BackendError, OutageError

_DEFAULT = "http://localhost:4318"
_SECONDS_BELOW = 300.0
"""The specification has OTEL_EXPORTER_OTLP_TIMEOUT in milliseconds, Python's own exporter in seconds: a number below
this is seconds, since nobody waits less than that many milliseconds."""
_DENIED = {401: "does not know us", 403: "does not let us in"}
_WRONG_PLACE = {404: "has nothing there", 405: "takes no traces there", 415: "takes no protobuf there"}
_BUSY = frozenset({408, 429, 502, 503, 504})


class TooLarge(Exception):
    """The receiver takes no request of this size."""


class Rejected(Exception):
    """The receiver did not like what it was given."""


class Settings(NamedTuple):
    """Where the receiver is, and how to speak to it."""

    url: str
    headers: dict[str, str]
    timeout_sec: float = 10.0
    compress: bool = True
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """From OTEL_EXPORTER_OTLP_*; a variable for traces alone wins over one for all signals.

        Raises:
            BackendError: a variable cannot be understood, or asks for what we do not speak.
        """

        def find(name: str) -> str | None:
            for variable in (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
                if environment.get(variable, "").strip():
                    return environment[variable].strip()
            return None

        protocol = find("PROTOCOL") or "http/protobuf"
        if protocol != "http/protobuf":
            raise BackendError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; rolltrace speaks http/protobuf: set that")
        url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        if not url:
            base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or _DEFAULT
            url = base.rstrip("/") + "/v1/traces"
        if urllib.parse.urlsplit(url).scheme not in ("http", "https") or not urllib.parse.urlsplit(url).netloc:
            raise BackendError(f"OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as {_DEFAULT}, not {url!r}")
        return cls(
            url,
            _headers(find("HEADERS") or ""),
            _timeout(find("TIMEOUT") or "10000"),
            (find("COMPRESSION") or "gzip").lower() != "none",
            find("CERTIFICATE"),
            find("CLIENT_CERTIFICATE"),
            find("CLIENT_KEY"),
        )


class Receiver:
    """Takes requests. Each is a connection of its own: they are few and large."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        handlers: list[Any] = [_NoRedirects()]
        if settings.url.startswith("https:"):
            try:
                context = ssl.create_default_context(cafile=settings.certificate)
                if settings.client_certificate:
                    context.load_cert_chain(settings.client_certificate, settings.client_key)
            except OSError as fault:
                raise BackendError(f"a certificate of OTEL_EXPORTER_OTLP_* cannot be read: {fault}") from fault
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._open = urllib.request.build_opener(*handlers).open

    def export(self, body: bytes) -> PartialSuccess:
        """Send one request. When it returns, the receiver has it.

        Raises:
            BackendError: the key is wrong, or there is no receiver at this address.
            OutageError: not at the moment.
            TooLarge: not so much at once.
            Rejected: not this.
        """
        settings = self.settings
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "rolltrace", **settings.headers}
        if settings.compress:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        request = urllib.request.Request(settings.url, body, headers, method="POST")
        try:
            with self._open(request, timeout=settings.timeout_sec) as answer:
                return read_response(answer.read())
        except urllib.error.HTTPError as fault:
            with fault:
                raise self._problem(fault) from None
        except ssl.SSLCertVerificationError as fault:
            raise BackendError(f"{settings.url}: {fault}; set OTEL_EXPORTER_OTLP_CERTIFICATE") from fault
        except urllib.error.URLError as fault:
            if isinstance(fault.reason, ssl.SSLCertVerificationError):
                raise BackendError(f"{settings.url}: {fault.reason}; set OTEL_EXPORTER_OTLP_CERTIFICATE") from fault
            raise OutageError(f"{settings.url} cannot be reached: {fault.reason}") from fault
        except (OSError, http.client.HTTPException) as fault:
            raise OutageError(f"{settings.url} broke off: {type(fault).__name__}: {fault}") from fault

    def _problem(self, answer: urllib.error.HTTPError) -> Exception:
        code, text = answer.code, _said(answer)
        what = f"{self.settings.url} answered {code}{f': {text}' if text else ''}"
        if code in _DENIED:
            return BackendError(f"the receiver {_DENIED[code]}: set OTEL_EXPORTER_OTLP_HEADERS; {what}")
        if code in _WRONG_PLACE or 300 <= code < 400:
            why = _WRONG_PLACE.get(code, f"is elsewhere: {answer.headers.get('Location')}")
            return BackendError(f"the receiver {why}: set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; {what}")
        if code == 413:
            return TooLarge(what)
        if code in _BUSY or code >= 500:
            outage = OutageError(what)
            outage.retry_after_sec = _retry_after(answer.headers.get("Retry-After"))
            return outage
        return Rejected(what)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and look like success."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _said(answer: urllib.error.HTTPError) -> str:
    """What the receiver says about it: JSON, text or a protobuf status, as readable as it is."""
    try:
        text = answer.read(2000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:500]


def _headers(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BackendError(
                f"OTEL_EXPORTER_OTLP_HEADERS must be name=value,name=value, not {pair.partition('=')[0]!r}"
            )
        found[urllib.parse.unquote(name.strip())] = urllib.parse.unquote(value.strip())
    return found


def _timeout(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise BackendError(f"OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, not {text!r}")
    return number if number < _SECONDS_BELOW else number / 1000


def _retry_after(text: str | None) -> float | None:
    """Seconds, from a number of them or a date."""
    if not text:
        return None
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(text) - datetime.now(timezone.utc)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
