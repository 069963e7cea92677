"""The proxy as a server of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolltrace.proxy.application import Proxy
    from rolltrace.view import Listening

_MOST_HEAD_BYTES = 256 << 10
_KEEP_ALIVE_SEC = 75


def serve(proxy: Proxy, listening: Listening) -> None:
    """Answer until a signal ends it."""
    import uvicorn

    config = uvicorn.Config(
        proxy,
        # An answer that broke off is the upstream's fault, which is in the record: uvicorn would print a traceback.
        log_level="critical", access_log=False, server_header=False, date_header=False, lifespan="on", http="h11",
        ws="none", h11_max_incomplete_event_size=_MOST_HEAD_BYTES, timeout_keep_alive=_KEEP_ALIVE_SEC,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening.socket])
