"""A server that keeps the spans that are posted to it, and no more: `python -m benchmarks.peers.sink FOLDER PORT`."""

import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_LENGTH_BYTES = 8
_FILE = "posted"


def bodies(folder: Path) -> Iterator[bytes]:
    """All that was posted, in its order."""
    data = (folder / _FILE).read_bytes()
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        yield data[at + _LENGTH_BYTES : at + _LENGTH_BYTES + size]
        at += _LENGTH_BYTES + size


def serve(folder: Path, port: int) -> None:
    lock = threading.Lock()
    with (folder / _FILE).open("ab", buffering=0) as file:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                with lock:
                    if self.path.endswith("/v1/traces"):
                        file.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
                self._answer()

            def do_GET(self) -> None:
                self._answer()

            def _answer(self) -> None:
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
