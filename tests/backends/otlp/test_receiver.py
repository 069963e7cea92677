"""Where the receiver is, and what its answers mean."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

from rolltrace.backends.otlp.receiver import Receiver, ReceiverSettings, Rejected, TooLarge
from rolltrace.errors import BackendError, OutageError


def read(**variables: str) -> ReceiverSettings:
    return ReceiverSettings.read({f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()})


def test_the_address_follows_the_specification() -> None:
    assert read().url == "http://localhost:4318/v1/traces"
    assert read(ENDPOINT="https://a.b/c/").url == "https://a.b/c/v1/traces"
    assert read(ENDPOINT="http://a", TRACES_ENDPOINT="http://b/x").url == "http://b/x"


def test_a_variable_for_traces_wins() -> None:
    found = read(
        HEADERS="a=1", TRACES_HEADERS="b=2", TRACES_TIMEOUT="2000", COMPRESSION="gzip", TRACES_COMPRESSION="none"
    )
    assert (found.headers, found.timeout_sec, found.compress) == ({"b": "2"}, 2.0, False)


def test_headers_are_pairs_with_escapes() -> None:
    assert read(HEADERS="authorization=Basic%20YTpi, x-mlflow-experiment-id=7").headers == {
        "authorization": "Basic YTpi",
        "x-mlflow-experiment-id": "7",
    }


@pytest.mark.parametrize(("text", "seconds"), [("10000", 10.0), ("10", 10.0), ("500", 0.5), ("1.5", 1.5)])
def test_timeouts_are_milliseconds_and_small_ones_seconds(text: str, seconds: float) -> None:
    assert read(TIMEOUT=text).timeout_sec == seconds


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"PROTOCOL": "grpc"}, "set it to http/protobuf"),
        ({"ENDPOINT": "localhost:4318"}, "must be a URL"),
        ({"HEADERS": "secret"}, "must be name=value"),
        ({"TIMEOUT": "soon"}, "a number of milliseconds"),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, str], complaint: str) -> None:
    with pytest.raises(BackendError, match=complaint):
        read(**variables)


def test_a_request_is_a_post_of_protobuf(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=geheim")
    Receiver(ReceiverSettings.read()).export(b"body")
    ((path, headers, body),) = answers.requests
    assert (path, body) == ("/v1/traces", b"body")
    assert headers["content-type"] == "application/x-protobuf"
    assert (headers["x-key"], headers["content-encoding"]) == ("geheim", "gzip")


def test_compression_can_be_turned_off(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    Receiver(ReceiverSettings.read()).export(b"body")
    assert "content-encoding" not in answers.requests[0][1]


@pytest.mark.parametrize(
    ("code", "kind", "complaint"),
    [
        (401, BackendError, "set OTEL_EXPORTER_OTLP_HEADERS.*answered 401: who are you"),
        (403, BackendError, "set OTEL_EXPORTER_OTLP_HEADERS"),
        (404, BackendError, "set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        (302, BackendError, "redirects to"),
        (413, TooLarge, "413"),
        (400, Rejected, "who are you"),
        (422, Rejected, "422"),
        (429, OutageError, "429"),
        (500, OutageError, "500"),
        (503, OutageError, "503"),
    ],
)
def test_answers_are_understood(answers: Any, code: int, kind: type[Exception], complaint: str) -> None:
    answers.next = [(code, {}, b"who are\x00 you")]
    with pytest.raises(kind, match=complaint):
        Receiver(ReceiverSettings.read()).export(b"x")


def test_a_redirect_is_not_followed(answers: Any) -> None:
    answers.next = [(301, {"Location": answers.url + "/elsewhere"}, b"")]
    with pytest.raises(BackendError, match="/elsewhere"):
        Receiver(ReceiverSettings.read()).export(b"x")
    assert len(answers.requests) == 1


def test_the_receiver_says_how_long_to_wait(answers: Any) -> None:
    later = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    answers.next = [(429, {"Retry-After": "7"}, b""), (503, {"Retry-After": later}, b""), (503, {}, b"")]
    waits = []
    for _ in range(3):
        with pytest.raises(OutageError) as caught:
            Receiver(ReceiverSettings.read()).export(b"x")
        waits.append(caught.value.retry_after_sec)
    assert waits[0] == 7.0
    assert waits[1] is not None
    assert 50 < waits[1] <= 100
    assert waits[2] is None


def test_nobody_there_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(OutageError, match="cannot be reached"):
        Receiver(ReceiverSettings.read()).export(b"x")


def test_a_receiver_that_hangs_up_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
        with pytest.raises(OutageError):
            Receiver(ReceiverSettings.read()).export(b"x")


def test_a_certificate_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")
    with pytest.raises(BackendError, match="certificate"):
        Receiver(ReceiverSettings.read())
