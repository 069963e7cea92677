"""Clients that send slowly, or never read: they lose their connection, and nobody else waits for them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from rolltrace.view.connection import Connection
from rolltrace.view.limits import MAX_STREAMS
from rolltrace.view.pages import static_files
from tests.background import eventually
from tests.view.conftest import serving

SOON = 0.3


@pytest.fixture
def impatient(demo_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """A client of a server that gives up soon."""
    monkeypatch.setattr(Connection, "receive_sec", SOON)
    monkeypatch.setattr(Connection, "unread_sec", SOON)
    monkeypatch.setattr(Connection, "keep_alive_sec", SOON)
    monkeypatch.setattr(Connection, "most_connections", 20)
    with serving(demo_store) as client:
        yield client


def connected(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=60)


def ends(connection: socket.socket) -> bool:
    """Whether the server closes the connection, sooner or later."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def is_answered(client: httpx.Client) -> bool:
    try:
        return client.get("/api/status").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HT",
        b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /api/sta",  # the second on one connection
        b"POST /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a line", "half a head", "half a second request", "half a body"],
)
def test_a_request_that_does_not_arrive_loses_its_connection(impatient: httpx.Client, begun: bytes) -> None:
    with connected(impatient) as connection:
        connection.sendall(begun)
        assert ends(connection)


def test_a_byte_now_and_then_is_not_enough(impatient: httpx.Client) -> None:
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        try:
            for byte in b"GET /api/status HTTP/1.1\r\n" + b"X: y\r\n" * 100_000:
                connection.send(bytes([byte]))
                if ended.wait(SOON / 20):
                    return
        except OSError:
            pass

    with connected(impatient) as connection:
        dripping = threading.Thread(target=drip, args=(connection,))
        dripping.start()
        assert ends(connection)
        ended.set()
        dripping.join()


def test_many_slow_clients_keep_nobody_else_out(impatient: httpx.Client) -> None:
    waiting = [connected(impatient) for _ in range(60)]
    try:
        for connection in waiting:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\n")
            except ConnectionError:
                pass
        eventually(lambda: is_answered(impatient))
        assert all(ends(connection) for connection in waiting)
    finally:
        for connection in waiting:
            connection.close()


def test_an_answer_that_nobody_reads_is_given_up(impatient: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "most_connections", 1)
    large = max(static_files().items(), key=lambda file: len(file[1].body))[0]
    with connected(impatient) as connection:
        connection.sendall(f"GET {large} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 200)
        eventually(lambda: is_answered(impatient))  # there is room for one connection, so ours must be gone


def test_streams_that_nobody_reads_do_not_grow_and_their_number_is_bounded(client: httpx.Client) -> None:
    asked = b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = []
    try:
        statuses = []
        for _ in range(MAX_STREAMS + 2):
            held.append(connected(client))
            held[-1].sendall(asked)
            statuses.append(held[-1].recv(12))
        assert statuses == [b"HTTP/1.1 200"] * MAX_STREAMS + [b"HTTP/1.1 503"] * 2
        assert client.get("/api/status").status_code == 200
    finally:
        for connection in held:
            connection.close()

    def has_room() -> bool:
        with client.stream("GET", "/api/events") as stream:
            return stream.status_code == 200

    eventually(has_room)


def test_other_requests_are_answered_beside_three_hundred_event_streams(demo_store: Path) -> None:
    with serving(demo_store) as client, ExitStack() as streams:
        refused = 0
        for _ in range(300):
            stream = streams.enter_context(connected(client))
            stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head = stream.recv(65536)
            if not head.startswith(b"HTTP/1.1 200"):
                assert head.startswith(b"HTTP/1.1 503")
                assert b"live updates" in head + stream.recv(65536)
                refused += 1
        assert refused == 300 - MAX_STREAMS
        with httpx.Client(base_url=client.base_url) as another:
            assert all(is_answered(another) for _ in range(5))


def test_event_streams_that_are_asked_for_at_the_same_moment_are_counted(client: httpx.Client) -> None:
    request = b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as streams:
        connections = [streams.enter_context(connected(client)) for _ in range(MAX_STREAMS + 20)]
        for connection in connections:
            connection.sendall(request)
        statuses = [connection.recv(12) for connection in connections]
        assert sorted(statuses) == [b"HTTP/1.1 200"] * MAX_STREAMS + [b"HTTP/1.1 503"] * 20
