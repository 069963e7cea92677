"""A reverse proxy that records the model calls of agents which cannot be changed. docs/howto/proxy.md."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.proxy.address import VARIABLE, proxied_env
    from rolltrace.proxy.application import Proxy, serve
    from rolltrace.proxy.upstream import Upstream

_LATER, __getattr__ = load_later(
    __name__,
    {"address": "VARIABLE proxied_env", "application": "Proxy serve", "upstream": "Upstream"},
)
"""Name -> its module, loaded when it is asked for: who starts an agent needs no server."""

__all__ = ["VARIABLE", "Proxy", "Upstream", "proxied_env", "serve"]
