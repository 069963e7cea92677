"""Requests to a vendor's server: timeouts, certificates, redirects and errors, the same for every backend over HTTP.

There are no retries here: waiting and trying again is the sender's work, and `OutageError` tells it so. What an error
status means is the vendor's: `ErrorAnswer` carries it to the backend.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from rolltrace.errors import BackendError, OutageError

_MAX_TEXT_LENGTH = 500
_NOTHING: Mapping[str, str] = {}


class ErrorAnswer(Exception):
    """The server answered with a status that is no success."""

    def __init__(self, url: str, answer: urllib.error.HTTPError) -> None:
        self.status = answer.code
        self.text = _text(answer)
        """What the server said about it, as readable as it is."""
        self.location: str | None = answer.headers.get("Location")
        self.retry_after_sec = _retry_after(answer.headers.get("Retry-After"))
        super().__init__(f"{url} answered {self.status}{f': {self.text}' if self.text else ''}")

    def as_outage(self) -> OutageError:
        """The same, for a server that may take the request later."""
        outage = OutageError(str(self))
        outage.retry_after_sec = self.retry_after_sec
        return outage


class HttpClient:
    """Posts to one vendor's server. Each request is a connection of its own: they are few and large."""

    def __init__(self, timeout_sec: float, *, certificate_setting: str, context: ssl.SSLContext | None = None) -> None:
        """`certificate_setting` names the variable to set when the server's certificate is not trusted."""
        self._timeout_sec = timeout_sec
        self._certificate_setting = certificate_setting
        handlers: list[Any] = [_NoRedirects()]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._open = urllib.request.build_opener(*handlers).open

    def post(self, url: str, body: bytes, content_type: str, headers: Mapping[str, str] = _NOTHING) -> bytes:
        """Send one request; gives the body of the answer."""
        all_headers = {"Content-Type": content_type, "User-Agent": "rolltrace", **headers}
        request = urllib.request.Request(url, body, all_headers, method="POST")
        try:
            with self._open(request, timeout=self._timeout_sec) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as answer:
            with answer:
                raise ErrorAnswer(url, answer) from None
        except ssl.SSLCertVerificationError as error:
            raise self._untrusted(url, error) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise self._untrusted(url, error.reason) from error
            raise OutageError(f"{url} cannot be reached: {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise OutageError(f"{url} closed the connection: {type(error).__name__}: {error}") from error

    def _untrusted(self, url: str, error: Exception) -> BackendError:
        return BackendError(f"{url}: {error}; set {self._certificate_setting}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET and look like success, and a key would go to another host."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _text(answer: urllib.error.HTTPError) -> str:
    try:
        text = answer.read(2000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:_MAX_TEXT_LENGTH]


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
