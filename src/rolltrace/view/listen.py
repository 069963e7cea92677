"""Where the server listens, and until when it runs."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rolltrace.errors import ConfigError

if TYPE_CHECKING:
    from rolltrace.view.security import Access
    from rolltrace.view.writes import Writing

DEFAULT_PORT = 7655
"""ROLL on the keys of a telephone."""


class Listening(NamedTuple):
    """An open socket."""

    socket: socket.socket
    host: str
    port: int

    @property
    def url(self) -> str:
        """The address to open on this machine."""
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int | None) -> Listening:
    """Take a port: the one that is asked for; else the usual one, or any that is free.

    Raises:
        ConfigError: the port is taken, or the address is not one of this machine.
    """
    for attempt in (port,) if port is not None else (DEFAULT_PORT, 0):
        try:
            return _bound(host, attempt)
        except OSError as fault:
            problem = fault
    at = f"{host}:{port}" if port is not None else host
    hint = "; leave --port out to take any that is free" if port is not None else ""
    raise ConfigError(f"cannot listen on {at}: {problem.strerror or problem}{hint}") from None


def _bound(host: str, port: int) -> Listening:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as fault:
        raise OSError(f"host name cannot be resolved ({fault.strerror})") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except OSError:
        opened.close()
        raise
    return Listening(opened, host, opened.getsockname()[1])


def serve(stores: Sequence[Path], listening: Listening, access: Access, writing: Writing | None = None) -> None:
    """Answer until a signal ends it."""
    # Here, since the socket waits for a browser already: it can start while this loads.
    import uvicorn

    from rolltrace.view.server import application
    from rolltrace.view.writes import Writing

    config = uvicorn.Config(
        application(stores, access, writing or Writing()),
        log_level="warning", access_log=False, server_header=False, lifespan="on",
        timeout_graceful_shutdown=1,  # pages that wait for live updates never end by themselves
        ws="none",
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening.socket])
