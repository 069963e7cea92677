"""What a person must put right is said in plain words; all else is an outage."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.backends.mlflow.server import in_plain_words
from rolltrace.errors import BackendError, OutageError
from rolltrace.query import Trajectory


@rolltrace.rollout_trace_op
def give(value: Any) -> Any:
    return value


@pytest.fixture
def trajectories(store: Path, project: str, read: Callable[[Path], list[Trajectory]]) -> list[Trajectory]:
    rolltrace.init(project, "exp", "rolltrace", store=store)
    for size in (10, 300_000, 10):
        with rolltrace.rollout_trace_attr(step=0):
            give("长" * size)
    rolltrace.shutdown()
    return read(store)


Answer = Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes, str]]


def answering(status: int, body: bytes = b"") -> AbstractContextManager[str]:
    """Something on a port that gives the same answer to everything; its address."""
    return listening(lambda request, sent: (status, body, "text/html"))


def between(server: str, most_bytes: int = 1 << 30, without: str = "") -> AbstractContextManager[str]:
    """What companies put before a server: it passes everything on, unless it is too large or of a method that is not
    there."""

    def passed_on(request: BaseHTTPRequestHandler, sent: bytes) -> tuple[int, bytes, str]:
        if len(sent) > most_bytes:
            return 413, b"<h1>Request Entity Too Large</h1>", "text/html"
        if request.command == without:
            return 404, b"<h1>Not Found</h1>", "text/html"
        connection = HTTPConnection(server.removeprefix("http://"))
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        connection.request(request.command, request.path, sent, headers)
        answer = connection.getresponse()
        with closing(connection):
            return answer.status, answer.read(), answer.headers["Content-Type"]

    return listening(passed_on)


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, kind = answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, *words: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "uri", [None, "", "databricks", "mlruns", "file:///tmp/mlruns", "sqlite://", "sqlite:///:memory:"]
)
def test_an_address_that_cannot_be_used_is_named_with_one_that_can(
    uri: str | None, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    if uri is None:
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(BackendError, match=r"MLFLOW_TRACKING_URI.*sqlite:////tmp/mlflow\.db"):
        MlflowBackend().send(trajectories)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"who are you", "MLFLOW_TRACKING_USERNAME"),
        (401, b'{"error_code": "UNAUTHENTICATED", "message": "no"}', "MLFLOW_TRACKING_USERNAME"),
        (
            403,
            b'{"error_code": "PERMISSION_DENIED", "message": "not yours"}',
            "permission to edit the experiment.*not yours",
        ),
        (403, b"Forbidden", "permission to edit"),
        (404, b"<html>nothing here</html>", "not an MLflow 3 server"),
        (200, b"<html>please log in</html>", "not an MLflow 3 server"),
        (200, b"3.9.0", r"MLflow server is 3\.9\.0; 3\.13 or newer is required"),
    ],
)
def test_an_answer_that_a_person_must_see_to_is_said_plainly(
    status: int, body: bytes, words: str, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status, body) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("//", "//me:secret@"))
        with pytest.raises(BackendError, match=words) as caught:
            MlflowBackend().send(trajectories)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_trouble_of_the_server_is_an_outage(
    status: int, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status) as uri:
        for address in (uri, uri.replace("//", "//me:secret@")):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
            with pytest.raises(Exception, match=str(status)) as caught:
                MlflowBackend().send(trajectories)
            assert not isinstance(caught.value, BackendError)
            assert "secret" not in str(caught.value)


def test_of_a_long_message_the_end_is_kept_where_the_reason_stands() -> None:
    with pytest.raises(OutageError, match=r"^at http.* answered 503$"), in_plain_words("http://me:secret@here"):
        raise OSError(f"at http://here/{'%E6%95%B0' * 100} answered 503")


def test_a_host_that_nobody_knows_is_named(trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", _nobody_knows)  # a machine without a network says "try again"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.invalid:5000")
    with pytest.raises(BackendError, match=r"http://mlflow\.invalid:5000 has an unknown host name"):
        MlflowBackend().send(trajectories)


def _nobody_knows(*words: Any, **more: Any) -> None:
    import socket

    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_what_is_too_large_at_once_is_sent_in_parts_and_what_is_too_large_alone_is_refused(
    running_server: Any, ask: Any, trajectories: list[Trajectory], project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, other = trajectories
    with between(running_server.url, 4_000) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        refused = MlflowBackend().send([small, large, other])
    assert [each.trajectory_id for each in refused] == [large.trajectory_id]
    assert "413" in refused[0].reason
    traces = ask(running_server.url).traces(project)
    for each in (small, other):
        assert [span.name for span in traces[each.trajectory_id].data.spans] == ["rollout_trace", "give"]


def test_a_server_that_deletes_nothing_gets_the_traces_and_the_new_scores(
    running_server: Any,
    ask: Any,
    project: str,
    store: Path,
    read: Callable[[Path], list[Trajectory]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rolltrace.init(project, "exp", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=0) as trajectory:
        rolltrace.score(trajectory, "judge", 1.0)
    (before,) = read(store)
    with between(running_server.url, without="DELETE") as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        backend = MlflowBackend()
        assert backend.send([before]) == []
        before.scores[:] = [replace(before.scores[0], name="reward", value=2.0)]
        backend.update([before])
        backend.update([before])
    assert len([line for line in caplog.messages if "does not delete feedback" in line]) == 1
    found = ask(running_server.url).traces(project)[before.trajectory_id].info.assessments
    assert {"judge", "reward"} <= {each.name for each in found}


def test_a_file_that_is_no_database_is_named(
    trajectories: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("this is no database, and long enough to be seen as such" * 20)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/notes.txt")
    with pytest.raises(BackendError, match=r"notes\.txt.*not a database"):
        MlflowBackend().send(trajectories)


def test_a_folder_that_cannot_be_made_is_named(
    trajectories: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/mlflow.db")
    with pytest.raises(BackendError, match=r"file/mlflow\.db.*cannot be written"):
        MlflowBackend().send(trajectories)


def test_a_database_of_an_older_mlflow_is_named_with_what_to_run(
    trajectories: list[Trajectory], tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mlflow.db"
    shutil.copy(empty_database, path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    with pytest.raises(BackendError, match="mlflow db upgrade"):
        MlflowBackend().send(trajectories)


def test_the_users_own_patience_with_the_server_is_left_alone(
    trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT", raising=False)
    with answering(500) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(Exception, match="500"):
            MlflowBackend().send(trajectories)
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ
