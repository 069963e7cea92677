"""A small real reverse proxy, as people have them before a viewer: it takes its prefix off, or leaves it on.

jupyter        /user/me/proxy/PORT/...    taken off; names are decoded and encoded again, as jupyter-server-proxy does
code-server    /proxy/PORT/...            taken off
nginx          /tools/rolltrace/...       left on (`--root-path`); Host is the server's own
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

_OF_ONE_CONNECTION = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "upgrade",
    "content-length",
    "date",
    "server",
}


@contextmanager
def proxied(address: str, prefix: str, *, keep_prefix: bool = False, decode: bool = False) -> Iterator[str]:
    """The address at which a proxy has the server at `address`. Anything outside the prefix is not found."""
    server = urlsplit(address)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if not path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            path = path if keep_prefix else path.removeprefix(prefix)
            if decode:
                path = quote(unquote(path), safe="/:?#[]@!$&'()*+,;=-._~")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
            if keep_prefix:
                headers["Host"] = server.netloc
            upstream = http.client.HTTPConnection(server.hostname or "", server.port, timeout=60)
            try:
                upstream.request(self.command, path + (f"?{query}" if query else ""), headers=headers)
                self._pass_on(upstream.getresponse())
            finally:
                upstream.close()
                self.close_connection = True

        do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

        def _pass_on(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_ONE_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:  # the browser has left an event stream
                pass

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Proxy(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128  # a page opens many connections at once, and a full queue refuses them

    proxy = Proxy(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}{prefix}"
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
