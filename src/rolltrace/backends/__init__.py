"""Where traces go besides the embedded store: backends, found by entry point."""

from rolltrace.backends.backend import Backend, Refused, convert_each
from rolltrace.backends.registry import EMBEDDED, check, installed, load

__all__ = ["EMBEDDED", "Backend", "Refused", "check", "convert_each", "installed", "load"]
