"""One OTLP receiver over HTTP: where it is, by OpenTelemetry's own environment variables, and what its answers mean."""

from __future__ import annotations

import gzip
import os
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from rolltrace.backends.http import ErrorAnswer, HttpClient
from rolltrace.backends.otlp.wire import PartialSuccess, read_response
from rolltrace.errors import BackendError

_DEFAULT = "http://localhost:4318"
_SECONDS_BELOW = 300.0
"""The specification has OTEL_EXPORTER_OTLP_TIMEOUT in milliseconds, Python's own exporter in seconds: a number below
this is seconds, since nobody waits less than that many milliseconds."""
_DENIED = {401: "requires authentication", 403: "denies access"}
_WRONG_ADDRESS = {
    404: "does not exist at this address",
    405: "does not accept traces at this address",
    415: "does not accept protobuf at this address",
}
_BUSY = frozenset({408, 429, 502, 503, 504})


class TooLarge(Exception):
    """The receiver accepts no request of this size."""


class Rejected(Exception):
    """The receiver does not accept these spans."""


class ReceiverSettings(NamedTuple):
    """Where the receiver is, and how to speak to it."""

    url: str
    headers: dict[str, str]
    timeout_sec: float = 10.0
    compress: bool = True
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> ReceiverSettings:
        """From OTEL_EXPORTER_OTLP_*; a variable for traces alone wins over one for all signals.

        Raises:
            BackendError: a variable cannot be understood, or asks for a protocol that we do not support.
        """

        def find(name: str) -> str | None:
            for variable in (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"):
                if environment.get(variable, "").strip():
                    return environment[variable].strip()
            return None

        protocol = find("PROTOCOL") or "http/protobuf"
        if protocol != "http/protobuf":
            raise BackendError(
                f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; set it to http/protobuf, the one that rolltrace supports"
            )
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
    """Takes requests."""

    def __init__(self, settings: ReceiverSettings) -> None:
        self.settings = settings
        context = None
        if settings.url.startswith("https:"):
            try:
                context = ssl.create_default_context(cafile=settings.certificate)
                if settings.client_certificate:
                    context.load_cert_chain(settings.client_certificate, settings.client_key)
            except OSError as error:
                raise BackendError(f"a certificate of OTEL_EXPORTER_OTLP_* cannot be read: {error}") from error
        self._client = HttpClient(
            settings.timeout_sec, certificate_setting="OTEL_EXPORTER_OTLP_CERTIFICATE", context=context
        )

    def export(self, body: bytes) -> PartialSuccess:
        """Send one request. When it returns, the receiver has it."""
        settings = self.settings
        headers = dict(settings.headers)
        if settings.compress:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        try:
            return read_response(self._client.post(settings.url, body, "application/x-protobuf", headers))
        except ErrorAnswer as answer:
            raise _problem(answer) from None


def _problem(answer: ErrorAnswer) -> Exception:
    status = answer.status
    if status in _DENIED:
        return BackendError(f"the receiver {_DENIED[status]}: set OTEL_EXPORTER_OTLP_HEADERS; {answer}")
    if status in _WRONG_ADDRESS or 300 <= status < 400:
        why = _WRONG_ADDRESS.get(status, f"redirects to {answer.location}")
        return BackendError(f"the receiver {why}: set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; {answer}")
    if status == 413:
        return TooLarge(str(answer))
    return answer.as_outage() if status in _BUSY or status >= 500 else Rejected(str(answer))


def _headers(text: str) -> dict[str, str]:
    headers = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BackendError(
                f"OTEL_EXPORTER_OTLP_HEADERS must be name=value,name=value, not {pair.partition('=')[0]!r}"
            )
        headers[urllib.parse.unquote(name.strip())] = urllib.parse.unquote(value.strip())
    return headers


def _timeout(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise BackendError(f"OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, not {text!r}")
    return number if number < _SECONDS_BELOW else number / 1000
