"""`rolltrace proxy` between an agent and a server that mean harm, or have bad luck."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

import rolltrace
from rolltrace.messages import join_stream, read_reply
from tests.background import eventually
from tests.proxy.rig import (
    EVENTS_HEAD,
    Asked,
    RawServer,
    chat,
    event,
    json_answer,
    piece,
    post,
    proxying,
    question,
    recorded_ops,
)

CHAT = "/v1/chat/completions"
CLOSE = "Connection: close"
KEY = "sk-test-9f8e7d6c5b4a39281706"


def always(answer: bytes) -> Callable[[socket.socket, Asked], object]:
    return lambda connection, _: connection.sendall(answer)


@pytest.mark.parametrize("path", ["/v1/models", CHAT])
def test_a_request_with_two_lengths_is_refused_and_nothing_of_it_goes_on(tmp_path: Path, path: str) -> None:
    server = RawServer(always(json_answer(chat("hello"))))
    second = post("/v1/second", question())
    body = b"0\r\n\r\n" + second
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n"
    with proxying(server, tmp_path / "store") as proxy:
        answer = proxy.ask(head.encode() + b"\r\n" + body)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"Content-Length" in answer
        assert answer.count(b"HTTP/1.1") == 1
        assert server.asked == []


def test_a_call_whose_answer_never_came_is_sent_once(tmp_path: Path) -> None:
    def answer(connection: socket.socket, asked: Asked) -> None:
        if b"drop" in asked.body:
            connection.close()
        else:
            connection.sendall(json_answer(chat("hello")))

    server = RawServer(answer)
    with proxying(server, tmp_path / "store") as proxy:
        assert b" 200 " in proxy.ask(post(CHAT, question("first"), CLOSE))  # leaves a connection that is used again
        assert proxy.ask(post(CHAT, question("drop"), CLOSE)).startswith(b"HTTP/1.1 502")
    assert [b"drop" in asked.body for asked in server.asked] == [False, True]


def test_a_request_that_changes_nothing_is_asked_again_on_a_fresh_connection(tmp_path: Path) -> None:
    drops = iter([False, True, False])

    def answer(connection: socket.socket, _: Asked) -> None:
        if next(drops):
            connection.close()
        else:
            connection.sendall(json_answer({"data": []}))

    server = RawServer(answer)
    get = f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n{CLOSE}\r\n\r\n".encode()
    with proxying(server, tmp_path / "store") as proxy:
        assert b" 200 " in proxy.ask(get)
        assert b" 200 " in proxy.ask(get)
    assert len(server.asked) == 3


def test_pieces_of_a_stream_are_kept_when_the_proxy_is_killed(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    long_question = "why? " * 2000

    def answer(connection: socket.socket, _: Asked) -> None:
        connection.sendall(EVENTS_HEAD)
        for number in range(30):
            connection.sendall(event(piece(f"word{number} ")))
        may_go_on.wait(60)

    server = RawServer(answer)
    store = tmp_path / "store"
    with proxying(server, store) as proxy, proxy.connect() as agent:
        agent.sendall(post(CHAT, question(long_question, stream=True)))
        received = b""
        while b"word29" not in received:
            received += agent.recv(1 << 16)
        eventually(lambda: any(b"word29" in path.read_bytes() for path in store.glob("journal/*/*.seg")))
        proxy.process.kill()
        proxy.process.wait()
        may_go_on.set()
    (op,) = recorded_ops(store)
    assert op.status == "interrupted"
    reply = read_reply(op.outputs)
    assert reply is not None
    assert reply.text == "".join(f"word{number} " for number in range(30))
    assert op.inputs["messages"][0]["content"] == long_question
    assert subprocess.run([sys.executable, "-m", "rolltrace", "store", "drain", "--once", str(store)]).returncode == 0
    (drained,) = recorded_ops(store)
    assert (drained.status, drained.inputs, drained.outputs) == (op.status, op.inputs, op.outputs)


def test_an_answer_too_large_to_record_passes_and_is_counted(tmp_path: Path) -> None:
    size = 70 << 20
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {size + 2}\r\n\r\n".encode()

    def answer(connection: socket.socket, _: Asked) -> None:
        connection.sendall(head + b'"')
        for _ in range(70):
            connection.sendall(b"x" * (1 << 20))
        connection.sendall(b'"')

    store = tmp_path / "store"
    with proxying(RawServer(answer), store) as proxy:
        received = proxy.ask(post(CHAT, question(), CLOSE))
        assert len(received.partition(b"\r\n\r\n")[2]) == size + 2
        (op,) = proxy.ops()
        assert op.outputs["bytes"] == size + 2
    losses = rolltrace.open(store).losses().rows()
    assert [(row["reason"], row["count"]) for row in losses] == [("answer_too_large", 1)]


@pytest.mark.parametrize("options", [[], ["--enrich"]])
def test_a_large_event_in_small_pieces_passes_unchanged_and_is_recorded(tmp_path: Path, options: list[str]) -> None:
    text = "x" * (1 << 20)

    def answer(connection: socket.socket, _: Asked) -> None:
        connection.sendall(EVENTS_HEAD)
        data = event(piece("begin ")) + event(piece(text)) + event(b"[DONE]")
        for at in range(0, len(data), 1000):
            connection.sendall(data[at : at + 1000])
        connection.close()

    with proxying(RawServer(answer), tmp_path / "store", *options) as proxy:
        received = proxy.ask(post(CHAT, question(stream=True), CLOSE))
        assert received.count(b"x") >= len(text)
        (op,) = proxy.ops()
        reply = read_reply(op.outputs)
        assert reply is not None
        assert reply.text == "begin " + text


ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: f"you sent {key}!",
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 behind a user": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "base64url": lambda key: base64.urlsafe_b64encode(f"ab{key}".encode()).decode(),
    "quoted": lambda key: "a=" + quote(key, safe=""),
    "hex": lambda key: key.encode().hex(),
    "upper case": lambda key: key.upper(),
    "reversed": lambda key: key[::-1],
    "spaced": lambda key: json.dumps({"headers": {"authorization": f"Bearer {key}"}}),
}
SHOWN = {
    "authorization": ("", f"Authorization: Bearer {KEY}/+%"),
    "x-api-key": ("", f"x-api-key: {KEY}/+%"),
    "api-key": ("", f"api-key: {KEY}/+%"),
    "x-goog-api-key": ("", f"x-goog-api-key: {KEY}/+%"),
    "query": (f"?key={quote(KEY + '/+%', safe='')}", "x-other: 1"),
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("kind", ["answer", "error", "stream"])
def test_a_key_that_the_server_echoes_is_not_recorded(tmp_path: Path, shown: str, kind: str) -> None:
    key = f"{KEY}/+%"
    said = " | ".join(echo(key) for echo in ECHOES.values())

    def answer(connection: socket.socket, _: Asked) -> None:
        if kind == "stream":
            connection.sendall(EVENTS_HEAD + b"".join(event(piece(said[at : at + 5])) for at in range(0, len(said), 5)))
            connection.close()
        else:
            connection.sendall(json_answer(chat(said), "200 OK" if kind == "answer" else "401 Unauthorized"))

    query, header = SHOWN[shown]
    with proxying(RawServer(answer), tmp_path / "store") as proxy:
        received = proxy.ask(post(CHAT + query, question(stream=kind == "stream"), header, CLOSE))
        assert (b'"you s' if kind == "stream" else b"you sent") in received
        (op,) = proxy.ops()
        recorded = join_stream(op.outputs) if kind == "stream" else op.outputs
        text = json.dumps([recorded, op.error, op.traceback])
        survivors = [name for name, echo in ECHOES.items() if echo(key)[10:34] in json.loads(json.dumps(text))]
        assert "you sent" in text
        assert survivors == []
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert KEY.encode() not in stored


def test_a_word_in_the_place_of_a_key_is_no_secret(tmp_path: Path) -> None:
    with proxying(RawServer(always(json_answer(chat("the list is EMPTY")))), tmp_path / "store") as proxy:
        proxy.ask(post(CHAT, question(), "Authorization: Bearer EMPTY", CLOSE))
        (op,) = proxy.ops()
        reply = read_reply(op.outputs)
        assert reply is not None
        assert reply.text == "the list is EMPTY"
