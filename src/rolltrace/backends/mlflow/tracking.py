"""MLflow's tracking store, opened with care: a fresh SQLite file is made into a database by one process alone."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlflow.tracing.client import TracingClient
from mlflow.version import VERSION
from packaging.version import Version

from rolltrace.backends.mlflow.faults import without_password
from rolltrace.errors import BackendError

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
    except OSError as fault:
        raise BackendError(
            f"MLFLOW_TRACKING_URI names {str(path)!r}, which cannot be written: {fault.strerror}"
        ) from fault
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _check_sqlite(path: Path) -> None:
    """MLflow would try for minutes to open what is no database."""
    try:
        connection = sqlite3.connect(path)
        try:
            connection.execute("PRAGMA schema_version")
        finally:
            connection.close()
    except sqlite3.DatabaseError as fault:
        if "locked" in str(fault):
            raise
        raise BackendError(f"MLFLOW_TRACKING_URI names {str(path)!r}, which cannot be used: {fault}") from fault
