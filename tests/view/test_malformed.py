"""Requests that are no requests: each is refused or ended, and the server goes on answering."""

from __future__ import annotations

import socket

import httpx
import pytest

from rolltrace.view.limits import MAX_BODY_BYTES, MAX_HEAD_BYTES


def sent(client: httpx.Client, data: bytes) -> bytes:
    """What the server answers to these bytes before it closes the connection."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=60) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        except OSError:  # closed while we wrote
            return b""
        return received


HEAD = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # TLS to a port without
        b"GET\r\n\r\n",
        b"GET /api/status\r\n\r\n",
        b"GET /api/status HTTP/1.1\r\n\r\n",  # no host
        b"GET /api/status HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://evil.example/api/status HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        HEAD + b"X: a\x00b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 5\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\n",
        HEAD + b"Cookie: " + b"a=b; " * 40_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n",
        b"GET /api/groups?where=" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /" + b"a/" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"A" * 1_000_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda data: repr(data[:40]) + str(len(data)),
)
def test_what_is_no_request_is_refused(client: httpx.Client, data: bytes) -> None:
    answer = sent(client, data)
    assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 421", b"HTTP/1.1 431"), answer[:300]
    assert client.get("/api/status").status_code == 200


def test_an_upgrade_is_not_made(client: httpx.Client) -> None:
    answer = sent(client, HEAD.replace(b"close", b"upgrade") + b"Upgrade: websocket\r\n\r\n")
    assert b" 101 " not in answer[:40]


def test_a_head_is_bounded_also_when_it_arrives_at_once(client: httpx.Client) -> None:
    answer = client.get("/api/status", headers={"X-Long": "y" * MAX_HEAD_BYTES})
    assert answer.status_code in (400, 431)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 400}, 400),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_is_bounded_and_refused_before_it_is_read(
    client: httpx.Client, headers: dict[str, str], status: int
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{lines}\r\n"
    answer = sent(client, head.encode())
    assert answer.split(b" ")[1] in (str(status).encode(), b"400"), answer[:200]


@pytest.mark.parametrize(
    "query",
    [
        "where=%00", "where=%ff%fe", "where=" + "(" * 3000, "where=" + "not+" * 3000 + "error", "where=reward%3D1e9999",
        "where=" + "reward%3D1+or+" * 2000 + "error", "step=" + "9" * 5000, "step=1e3", "step=-9223372036854775809",
        "limit=9999999999999999999999", "after=" + "A" * 3000, "after=%5B%5B%5B", "order=" + "reward," * 2000,
        "project=%F0%9F%98%80%00&experiment=" + "e" * 5000, "project=a&project=b", "&&&&====", "%", "validate=maybe",
        "=" * 30_000, "&".join(f"a{number}=b" for number in range(3000)), "where=tag.%22%3B+DROP--%22+%3D+1",
        "sample_index=%ED%A0%80", "where=sample+~+'" + "(a*)*" * 100 + "b'",
    ],
    ids=lambda query: query[:30],
)  # fmt: skip
def test_no_query_string_is_a_fault_of_the_server(client: httpx.Client, query: str) -> None:
    more = {"search": "&q=a", "sql": "&listing=groups"}
    for path in ("groups", "trajectories", "facets", "filter/check", "filter/complete", "search", "jump", "sql"):
        answer = client.get(f"/api/{path}?{query}{more.get(path, '')}")
        assert answer.status_code in (200, 400, 404, 431), (path, answer.text[:300])
