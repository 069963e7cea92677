"""MLflow's tracking store, opened with care, and its errors in plain words: what a person must fix, what no repeat will
change.

A fresh SQLite file is made into a database by one process alone.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlflow.exceptions import InvalidUrlException, MlflowException
from mlflow.tracing.client import TracingClient
from mlflow.version import VERSION
from packaging.version import Version

from rolltrace.backends.values import without_password
from rolltrace.errors import BackendError, OutageError

_NEVER = re.compile(r"failed with error code (413|422)|Cannot convert OpenTelemetry|Failed to log OpenTelemetry")
_OLDEST = Version("3.13")
"""Before, a score that is sent again could not take the place of the one before."""
_DATABASES = ("postgresql", "mysql", "mssql")
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
}
"""MLflow would try for minutes by itself; to wait is the sender's work."""


def tracking_uri() -> str:
    """The user's, if we can write traces there."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    scheme = uri.partition(":")[0].partition("+")[0]
    if scheme not in ("http", "https", "sqlite", *_DATABASES):
        state = f"is {without_password(uri)!r}" if uri else "is not set"
        raise BackendError(
            f"MLFLOW_TRACKING_URI {state}; set it to a server (http://localhost:5000) or a file (sqlite:////tmp/mlflow.db)"
        )
    return uri


@contextmanager
def patience() -> Iterator[None]:
    """Inside, MLflow gives up on a request soon, unless the user said otherwise."""
    ours = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def open_tracking(uri: str) -> Any:
    """The tracking store, ready to be written."""
    _check_version("the installed mlflow", Version(VERSION))
    if uri.startswith("http"):
        store = TracingClient(uri).store
        _check_server(store)
        return store
    missing = [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]
    if missing:
        raise BackendError(
            f"MLFLOW_TRACKING_URI is a database, which requires {missing[0]}; pip install {' '.join(missing)}"
        )
    if not uri.startswith("sqlite"):
        return TracingClient(uri).store
    path = _sqlite_path(uri)
    with _alone(path):
        _check_sqlite(path)
        return TracingClient(uri).store


def _check_version(what: str, version: Version) -> None:
    if version < _OLDEST:
        raise BackendError(f"{what} is {version}; {_OLDEST} or newer is required")


def _check_server(store: Any) -> None:
    version = store._get_server_version(store.get_host_creds())
    if version is None:
        store._get_server_version.cache_clear()  # it would remember that it got no answer
    else:
        _check_version("the MLflow server", version)


def _sqlite_path(uri: str) -> Path:
    from sqlalchemy.engine import make_url  # not a part of mlflow-skinny

    name = make_url(uri).database
    if not name or name == ":memory:":
        raise BackendError(
            f"MLFLOW_TRACKING_URI is {uri!r}, which does not name a file; write sqlite:////tmp/mlflow.db"
        )
    return Path(name).absolute()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: two that made the tables at once would spoil both, and MLflow does not see to it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        why = f"which cannot be written: {error.strerror}"
        raise BackendError(f"MLFLOW_TRACKING_URI names {str(path)!r}, {why}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _check_sqlite(path: Path) -> None:
    """MLflow would try for minutes to open what is no database."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise
        raise BackendError(f"MLFLOW_TRACKING_URI names {str(path)!r}, which cannot be used: {error}") from error


@contextmanager
def in_plain_words(uri: str) -> Iterator[None]:
    """Turn what a person must see to into `BackendError`; all else passes as it is, an outage."""
    try:
        yield
    except (MlflowException, OSError) as error:
        reason = _for_a_person(error)
        if reason is not None:
            raise BackendError(f"MLflow at {without_password(uri)} {reason}") from error
        if without_password(uri) != uri:  # the message is shown, and names the address
            raise OutageError(_short(error)) from None
        raise


def is_final(error: MlflowException) -> bool:
    """MLflow will never take this, however often it is sent."""
    return bool(error.get_http_status_code() == 400 or _NEVER.search(str(error)))


def _for_a_person(error: Exception) -> str | None:
    code = error.get_http_status_code() if isinstance(error, MlflowException) else None
    if code == 401:
        return "requires authentication (401): set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN"
    if code == 403:
        return f"denies write access (403), ask for permission to edit the experiment: {_short(error)}"
    elsewhere = getattr(error, "error_code", None) == "ENDPOINT_NOT_FOUND" or isinstance(error, InvalidUrlException)
    if elsewhere or "not in a valid JSON format" in str(error):
        return f"is not an MLflow 3 server; check MLFLOW_TRACKING_URI: {_short(error)}"
    if "out-of-date database schema" in str(error):
        return "is a database of an older MLflow: back it up, then run mlflow db upgrade"
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return "has an unknown host name; check MLFLOW_TRACKING_URI"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"has a certificate that is not trusted; see MLFLOW_TRACKING_SERVER_CERT_PATH: {_short(cause)}"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all that led to it: requests and urllib3 hide theirs in arguments and attributes."""
    visited: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and id(cause) not in visited:
            visited.add(id(cause))
            yield cause
            waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args]


def _short(error: BaseException) -> str:
    """The middle can go: an address is long, and what went wrong stands after it."""
    text = without_password(" ".join(str(error).split()))
    return text if len(text) <= 300 else f"{text[:145]} ... {text[-150:]}"
