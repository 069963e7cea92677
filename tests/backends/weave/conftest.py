"""Recorded trajectories, as the sender hands them to a backend, and a service to send them to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import Trajectory


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[Callable[[], None]], list[Trajectory]]:
    """Trace what a function does; gives the trajectories, oldest first."""

    def record(program: Callable[[], None]) -> list[Trajectory]:
        rolltrace.init("maths", "baseline", "rolltrace", store=tmp_path)
        program()
        rolltrace.shutdown()
        store = rolltrace.open(tmp_path)
        return [store.trajectory(row["trajectory_id"]) for row in store.trajectories(order="start_ns").rows()]

    return record


class Service:
    """An HTTP server on this machine that answers as it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers and body of each request."""
        self.answers: dict[str, Callable[[bytes], tuple[int, Any]]] = {}
        """Path -> what to answer to a body: a status, and JSON or a `Location`."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.asked.append((self.path, dict(self.headers), body))
                status, said = service.answers.get(self.path, lambda body: (404, {"detail": "no such page"}))(body)
                self.send_response(status)
                for name, value in (said if status in (307, 308, 429) else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()
