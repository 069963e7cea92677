"""A proxy in front of object storage that fails in the ways in which that fails."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = str | None
Plan = Callable[[str, str], Fault]
"""Which fault a request of this method and path meets: None, `500`, `503`, `timeout`, `lost`."""

_SLOW_DOWN = (
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
)
_BROKEN = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>Please try again.</Message></Error>'
HANG_SEC = 4.0


class Proxy:
    """Passes requests on to a server, unless its plan says otherwise."""

    def __init__(self, port: int) -> None:
        self.plan: Plan = lambda method, path: None
        self.faults: Counter[str] = Counter()
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                proxy.requests.append((self.command, self.path))
                fault = proxy.plan(self.command, self.path)
                if fault is not None:
                    proxy.faults[fault] += 1
                if fault == "timeout":
                    time.sleep(HANG_SEC)
                    self.close_connection = True
                    return
                if fault in ("500", "503"):
                    self._answer(int(fault), {}, _BROKEN if fault == "500" else _SLOW_DOWN)
                    return
                connection = http.client.HTTPConnection("127.0.0.1", port)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                if fault == "lost":  # it was done, and nobody is told
                    self.close_connection = True
                    return
                self._answer(answer.status, dict(answer.getheaders()), content)

            def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", headers.get("content-length"))
                self.send_header("content-length", length if self.command == "HEAD" and length else str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:  # a client that was killed
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_address[1]}",
            "ROLLTRACE_STORE_TIMEOUT": "2",
        }
        """Of a process whose requests go through it."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
