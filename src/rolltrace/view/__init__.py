"""Show: a local web server over `query`. No business logic here."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.view.listen import Listening, is_loopback, listen, serve

if TYPE_CHECKING:
    from rolltrace.view.security import access_for
    from rolltrace.view.server import application
    from rolltrace.view.writes import Writing

_LATER, __getattr__ = load_later(__name__, {"security": "access_for", "server": "application", "writes": "Writing"})

__all__ = ["Listening", "Writing", "access_for", "application", "is_loopback", "listen", "serve"]
