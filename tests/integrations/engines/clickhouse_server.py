"""ClickHouse's HTTP interface, as far as its client needs it, in front of the real engine in a folder (chdb).

    python clickhouse_server.py FOLDER PORT

No server of ClickHouse can be installed from the package index; its engine can. One process owns the folder. A request
with the header-like settings in its URL is a statement, or an INSERT with the rows behind it in any format. `POST
/lose?answers=N` makes it close the connection instead of answering the next N inserts, after they were done.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb import session

FOLDER = Path(sys.argv[1])
ENGINE = session.Session(str(FOLDER / "engine"))
ALONE = threading.Lock()
_INSERT = re.compile(rb"\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)[ \t]*\r?\n?", re.IGNORECASE | re.DOTALL)
_NOT_SETTINGS = {
    "query", "database", "session_id", "session_timeout", "query_id", "compress", "decompress", "default_format",
    "enable_http_compression", "user", "password", "client_protocol_version", "wait_end_of_query", "role",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms",
    "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip
_PASSWORD = os.environ.get("SERVER_PASSWORD", "")


class Lost:
    """How many answers to inserts are not given."""

    answers = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        address = urlsplit(self.path)
        given = dict(parse_qsl(address.query, keep_blank_values=True))
        body = self._body()
        if address.path == "/lose":
            Lost.answers = int(given["answers"])
            return self._answer(200, b"Ok.\n")
        if address.path == "/ping" or not (given or body):
            return self._answer(200, b"Ok.\n")
        if _PASSWORD and f":{_PASSWORD}" not in self._credentials():
            return self._answer(403, b"Code: 516. DB::Exception: Authentication failed", "516")
        statement = given.get("query", "").encode() + (b"\n" if "query" in given else b"") + body
        form = given.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"
        insert = _INSERT.match(statement)
        try:
            with ALONE:
                answer = self._run(given, statement, insert, form)
        except Exception as fault:
            return self._answer(500, str(fault).encode(), "1")
        if insert is not None and Lost.answers:
            Lost.answers -= 1
            self.close_connection = True
            self.connection.close()
            return None
        return self._answer(200, answer, form=form)

    def _run(self, given: dict[str, str], statement: bytes, insert: re.Match[bytes] | None, form: str) -> bytes:
        if given.get("database"):
            ENGINE.query(f"USE `{given['database']}`")
        parameters = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
        for name, value in given.items():
            if name not in _NOT_SETTINGS and not name.startswith("param_"):
                ENGINE.query(f"SET {name} = '{value}'")
        if insert is None:
            done = ENGINE.query(statement.decode(), form, **({"params": parameters} if parameters else {}))
            return bytes(done.bytes() or b"") if done is not None and hasattr(done, "bytes") else b""
        with tempfile.NamedTemporaryFile(dir=FOLDER) as rows:  # the engine takes binary rows from files only
            rows.write(statement[insert.end() :])
            rows.flush()
            ENGINE.query(f"{insert[1].decode()} FROM INFILE '{rows.name}' FORMAT {insert[2].decode()}")
        return b""

    def _credentials(self) -> str:
        import base64

        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        key = self.headers.get("X-ClickHouse-Key")
        return f":{key}" if key else base64.b64decode(text).decode() if kind == "Basic" else ""

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            chunks = []
            while length := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            body = b"".join(chunks)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.headers.get("Content-Encoding", ""):
            case "lz4":
                import lz4.frame

                return _frames(body, lz4.frame.LZ4FrameDecompressor)
            case "zstd":
                import zstandard

                return _frames(body, lambda: zstandard.ZstdDecompressor().decompressobj())
            case "gzip":
                return gzip.decompress(body)
            case "deflate":
                return zlib.decompress(body)
            case _:
                return body

    def _answer(self, status: int, body: bytes, code: str | None = None, form: str = "TabSeparated") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Format", form)
        self.send_header("X-ClickHouse-Summary", '{"read_rows": "0", "written_rows": "0"}')
        self.send_header("X-ClickHouse-Timezone", "UTC")
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(body)


def _frames(body: bytes, decompressor: Callable[[], Any]) -> bytes:
    """A large insert comes in several compressed frames."""
    pieces = []
    while body:
        one = decompressor()
        pieces.append(one.decompress(body))
        body = one.unused_data or b""
    return b"".join(pieces)


if __name__ == "__main__":
    ENGINE.query("CREATE DATABASE IF NOT EXISTS default ENGINE = Atomic")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
