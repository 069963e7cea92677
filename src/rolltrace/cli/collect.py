"""`rolltrace collect`: a receiver of OpenTelemetry spans."""

from __future__ import annotations

import argparse
import secrets
from typing import Any

from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import plain
from rolltrace.errors import ConfigError

_SHORTEST_TOKEN = 16
_PORT = 4318
"""Where exporters of OTLP/HTTP send to if they are told nothing."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "collect",
        help="receive spans of agents that use OpenTelemetry",
        description="A receiver of OTLP over HTTP (protobuf and JSON): each trace becomes a trajectory, its model and "
        "tool calls become ops. Coordinates come from rl.* attributes. When it listens on more than this machine's "
        "own address, senders must show a token.",
        epilog="""examples:
  rolltrace collect --project math --experiment run-1
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python agent.py""",
    )
    add_store(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=_PORT, help=f"port to listen on (default: {_PORT}; 0: any free)")
    parser.add_argument("--token", help="token to require (default: none on 127.0.0.1, else a random one)")
    parser.add_argument("--project", default="collected", help="for spans that name none (default: collected)")
    parser.add_argument("--experiment", default="otlp", help="for spans that name none (default: otlp)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from rolltrace.collect import Collector, Home
    from rolltrace.settings import Settings
    from rolltrace.view import is_loopback, listen

    store = store_of(options, may_be_new=True, to_write=True)
    token: str | None = options.token
    if token is None and not is_loopback(options.host):
        token = secrets.token_urlsafe(24)
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise ConfigError(f"a token has at least {_SHORTEST_TOKEN} printable ASCII characters, not {len(token)}")
    arguments = {"project_name": options.project, "experiment_name": options.experiment, "store": store}
    settings = Settings.gather({**arguments, "backend": "rolltrace"})
    listening = listen(options.host, options.port)
    collector = Collector(settings, Home(settings.project_name, settings.experiment_name))
    lines = [
        f"rolltrace collect into {plain(str(store))}",
        f"  OTEL_EXPORTER_OTLP_ENDPOINT={listening.url().rstrip('/')}",
        "  OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ]
    if token is not None:
        lines.append(f"  OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20{token}")
    print("\n".join([*lines, "press Ctrl-C to stop"]), flush=True)
    from rolltrace.collect import serve_collector

    try:
        serve_collector(collector, listening, token)
    except KeyboardInterrupt:  # the usual end
        pass
    return 0
