"""Show: a local web server over `query`. No business logic here."""

from rolltrace.view.listen import Listening, listen, serve
from rolltrace.view.security import access_for, is_loopback
from rolltrace.view.server import application
from rolltrace.view.writes import Writing

__all__ = ["Listening", "Writing", "access_for", "application", "is_loopback", "listen", "serve"]
