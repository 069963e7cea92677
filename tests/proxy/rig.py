"""`rolltrace proxy` as a process of its own, and a server behind it whose every byte a test decides."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import rolltrace
from rolltrace.query import Op
from tests.background import eventually


class Asked(NamedTuple):
    """A request as the server got it."""

    head: str
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(" ")[1]


class RawServer:
    """Answers each request with what `answer` writes to its socket."""

    def __init__(self, answer: Callable[[socket.socket, Asked], object]) -> None:
        self._answer = answer
        self.asked: list[Asked] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(1 << 16)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                length = int(lengths[0].partition(b":")[2]) if lengths else 0
                while len(data) < length:
                    data += connection.recv(1 << 16)
                asked = Asked(head.decode("latin-1"), data[:length])
                data = data[length:]
                self.asked.append(asked)
                self._answer(connection, asked)

    def close(self) -> None:
        self._socket.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.close()


def json_answer(value: Any, status: str = "200 OK") -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


EVENTS_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chat(text: str) -> dict[str, Any]:
    """What OpenAI's chat completions answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice]}


def piece(text: str) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}


def question(text: str = "hi", **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **more}).encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Proxied(NamedTuple):
    """A proxy that runs."""

    process: subprocess.Popen[str]
    port: int
    store: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, request: bytes) -> bytes:
        """Everything that is answered until the proxy closes the connection; the request ends with `close`."""
        with self.connect() as connection:
            connection.sendall(request)
            parts = []
            while part := connection.recv(1 << 20):
                parts.append(part)
            return b"".join(parts)

    def ops(self) -> list[Op]:
        """All ops that are recorded, once none of them runs any more."""

        eventually(lambda: all(op.status != "running" for op in recorded_ops(self.store)))
        return recorded_ops(self.store)


def recorded_ops(store: Path) -> list[Op]:
    opened = rolltrace.open(store)
    ids = [row["trajectory_id"] for row in opened.trajectories().rows()]
    return [op for each in ids for op in _all_ops(opened.trajectory(each).ops)]


def _all_ops(ops: list[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        yield from _all_ops(op.children)


@contextmanager
def proxying(server: RawServer, store: Path, *options: str) -> Iterator[Proxied]:
    """`rolltrace proxy` before a server, until the block is left."""
    command = [sys.executable, "-m", "rolltrace", "proxy", "--upstream", server.url, "--port", "0"]
    with (store.parent / "proxy.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--store", str(store), "--project", "agents", *options],
            stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "ROLLTRACE_DRAIN": "off"},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        process.stdout.readline()
        address = process.stdout.readline().strip()
        yield Proxied(process, int(address.rpartition(":")[2]), store)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        server.close()
