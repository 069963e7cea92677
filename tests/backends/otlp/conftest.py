"""A receiver of our own, over real HTTP, that answers as it is told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Answers:
    """What was asked, and what is answered: the first of `next`, else 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.next: list[tuple[int, dict[str, str], bytes]] = []
        self.most_bytes: int | None = None
        self.url = ""

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.most_bytes is not None and len(body) > self.most_bytes:
            return 413, {}, b"too large"
        self.requests.append((path, headers, body))
        return self.next.pop(0) if self.next else (200, {}, b"")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    found = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            code, more, said = found.answer(self.path, headers, body)
            self.send_response(code)
            for name, value in {**more, "Content-Length": str(len(said))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
