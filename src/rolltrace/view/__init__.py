"""Show: a local web server over `query`. No business logic here."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.view.listen import (
    Certificate,
    Listening,
    checked_certificate,
    checked_root_path,
    is_loopback,
    listen,
    serve,
    server_of,
)

if TYPE_CHECKING:
    from rolltrace.view.security import access_for
    from rolltrace.view.server import application

_LATER, __getattr__ = load_later(__name__, {"security": "access_for", "server": "application"})

__all__ = [
    "Certificate",
    "Listening",
    "access_for",
    "application",
    "checked_certificate",
    "checked_root_path",
    "is_loopback",
    "listen",
    "serve",
    "server_of",
]
