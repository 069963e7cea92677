"""Where the server listens, and until when it runs."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rolltrace.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

    from rolltrace.view.security import Access
    from rolltrace.view.writes import Writing

DEFAULT_PORT = 7655
"""ROLL on the keys of a telephone."""
_SWITCH_SEC = 0.0005
_PART = re.compile(r"[\w.~!$&()*+,;=:@-]+", re.ASCII)
"""Of a path that a proxy has before ours."""


class Listening(NamedTuple):
    """An open socket."""

    socket: socket.socket
    host: str
    port: int

    def url(self, scheme: str = "http", root_path: str = "") -> str:
        """The address to open on this machine."""
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{self.port}{root_path}/"


class Certificate(NamedTuple):
    """What TLS needs: the server's certificate with those above it, and its key."""

    certfile: Path
    keyfile: Path | None
    """None if the key is in the same file."""


def checked_certificate(certfile: Path, keyfile: Path | None) -> Certificate:
    """The two files, after a look into them.

    Raises:
        ConfigError: they cannot be read, or do not belong together.
    """
    names = " and ".join(repr(str(file)) for file in (certfile, keyfile) if file is not None)
    try:
        # An empty password: without one, OpenSSL would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"no certificate and key without a password could be read from {names}: {reason}") from None
    return Certificate(certfile, keyfile)


def checked_root_path(text: str) -> str:
    """A prefix as it stands before paths: "" or `/some/prefix`.

    Raises:
        ConfigError: it cannot be a path.
    """
    parts = text.strip("/").split("/") if text.strip("/") else []
    if not all(_PART.fullmatch(part) and part.strip(".") for part in parts):
        raise ConfigError(f"--root-path is a path such as /tools/rolltrace, not {text!r}")
    return "".join(f"/{part}" for part in parts)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int | None, usual: int = DEFAULT_PORT) -> Listening:
    """Take a port: the one that is asked for; else the usual one, or any that is free.

    Raises:
        ConfigError: the port is taken, or the address is not one of this machine.
    """
    for attempt in (port,) if port is not None else (usual, 0):
        try:
            return _bound(host, attempt)
        except OSError as error:
            problem = error
    at = f"{host}:{port}" if port is not None else host
    hint = "; leave --port out to take any that is free" if port is not None else ""
    raise ConfigError(f"cannot listen on {at}: {problem.strerror or problem}{hint}") from None


def _bound(host: str, port: int) -> Listening:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise OSError(f"host name cannot be resolved ({error.strerror})") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return Listening(opened, host, opened.getsockname()[1])


def server_of(
    stores: Path | Sequence[Path],
    access: Access,
    writing: Writing | None = None,
    *,
    root_path: str = "",
    certificate: Certificate | None = None,
) -> uvicorn.Server:
    """The server of a store or of several, not started."""
    # Here, since the socket waits for a browser already: it can start while this loads.
    import uvicorn

    from rolltrace.view.connection import Connection
    from rolltrace.view.limits import MAX_HEAD_BYTES
    from rolltrace.view.server import application
    from rolltrace.view.writes import USUAL

    config = uvicorn.Config(
        application(stores, access, writing or USUAL, root_path),
        # A client's malformed request is not worth a line; our own errors have a logger of their own.
        log_level="error", access_log=False, server_header=False, lifespan="on", http=Connection, ws="none",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=1,  # pages that wait for live updates never end by themselves
        ssl_certfile=None if certificate is None else certificate.certfile,
        ssl_keyfile=None if certificate is None or certificate.keyfile is None else certificate.keyfile,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(
    stores: Sequence[Path],
    listening: Listening,
    access: Access,
    writing: Writing | None = None,
    *,
    root_path: str = "",
    certificate: Certificate | None = None,
) -> None:
    """Answer until a signal ends it."""
    # Else each thread that waited for data waits for another 5 ms while one decodes journals: many times per answer.
    sys.setswitchinterval(_SWITCH_SEC)
    server = server_of(stores, access, writing, root_path=root_path, certificate=certificate)
    server.run(sockets=[listening.socket])
