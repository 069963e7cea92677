"""Collect: spans that agents instrumented with OpenTelemetry send, into the journal."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.collect.collector import Collector
    from rolltrace.collect.place import Home
    from rolltrace.collect.server import serve_collector

_LATER, __getattr__ = load_later(__name__, {"collector": "Collector", "place": "Home", "server": "serve_collector"})

__all__ = ["Collector", "Home", "serve_collector"]
