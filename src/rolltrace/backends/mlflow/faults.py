"""What went wrong with MLflow, in plain words: what a person must fix, what no repeat will change."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import InvalidUrlException, MlflowException

from rolltrace.errors import BackendError, OutageError

_NEVER = re.compile(r"failed with error code (413|422)|Cannot convert OpenTelemetry|Failed to log OpenTelemetry")


@contextmanager
def in_plain_words(uri: str) -> Iterator[None]:
    """Turn what a person must see to into `BackendError`; all else passes as it is, an outage."""
    try:
        yield
    except (MlflowException, OSError) as fault:
        reason = _for_a_person(fault)
        if reason is not None:
            raise BackendError(f"MLflow at {without_password(uri)} {reason}") from fault
        if without_password(uri) != uri:  # the message is shown, and names the address
            raise OutageError(_short(fault)) from None
        raise


def without_password(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//", uri)


def is_final(fault: MlflowException) -> bool:
    """MLflow will never take this, however often it is sent."""
    return bool(fault.get_http_status_code() == 400 or _NEVER.search(str(fault)))


def _for_a_person(fault: Exception) -> str | None:
    code = fault.get_http_status_code() if isinstance(fault, MlflowException) else None
    if code == 401:
        return "requires authentication (401): set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN"
    if code == 403:
        return f"denies write access (403), ask for permission to edit the experiment: {_short(fault)}"
    elsewhere = getattr(fault, "error_code", None) == "ENDPOINT_NOT_FOUND" or isinstance(fault, InvalidUrlException)
    if elsewhere or "not in a valid JSON format" in str(fault):
        return f"is not an MLflow 3 server; check MLFLOW_TRACKING_URI: {_short(fault)}"
    if "out-of-date database schema" in str(fault):
        return "is a database of an older MLflow: back it up, then run mlflow db upgrade"
    for cause in _causes(fault):
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return "has an unknown host name; check MLFLOW_TRACKING_URI"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"has a certificate that is not trusted; see MLFLOW_TRACKING_SERVER_CERT_PATH: {_short(cause)}"
    return None


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """The fault and all that led to it: requests and urllib3 hide theirs in arguments and attributes."""
    visited: set[int] = set()
    waiting: list[object] = [fault]
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and id(cause) not in visited:
            visited.add(id(cause))
            yield cause
            waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]


def _short(fault: BaseException) -> str:
    """The middle can go: an address is long, and what went wrong stands after it."""
    text = without_password(" ".join(str(fault).split()))
    return text if len(text) <= 300 else f"{text[:145]} ... {text[-150:]}"
