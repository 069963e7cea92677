"""`rolltrace view`, `proxy` and `collect`: what listens on a port until Ctrl-C."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import click

from rolltrace._address import address_in
from rolltrace.cli.command import PATH, Declaration, argument, command, option
from rolltrace.cli.options import STORE, STORE_OPTION, Options, find_store
from rolltrace.cli.output import plain
from rolltrace.errors import ConfigError

_MIN_TOKEN = 16
_MAX_LABELS = 9
_PROXY_PORT = 7656
_OTLP_PORT = 4318
"""Where exporters of OTLP/HTTP send to if they are told nothing."""
_VIEW_EXAMPLES = """examples:
  rolltrace view --port 8000
  rolltrace view runs/a runs/b    two stores side by side
  ssh -L 7655:127.0.0.1:7655 HOST rolltrace view --no-browser"""
_PROXY_EXAMPLES = """examples:
  rolltrace proxy --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:7656 claude -p "what is 17 + 25?"
  rolltrace proxy --upstream http://127.0.0.1:8000 --enrich  # token ids too"""
_COLLECT_EXAMPLES = """examples:
  rolltrace collect --project math --experiment run-1
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python agent.py"""
_FILE = click.Path(readable=False, path_type=Path)
_HOST = option("--host HOST", "address to listen on (default: 127.0.0.1)", default="127.0.0.1")
_TOKEN = option("--token TOKEN", "token to require (default: none on 127.0.0.1, else a random one)")


def _port(default: str) -> Declaration:
    return option("--port PORT", f"port to listen on (default: {default})", type=click.INT)


@command(
    "look at a store in a browser",
    "A local web application for stores: experiments, steps, groups, trajectories, tokens, and what is running now. It "
    "sends nothing anywhere, and writes nothing but the labels and notes that people give. When it listens on more "
    "than this machine's own address, it requires a token, which is part of the printed link.",
    argument(
        "stores", "the store folder, or several to see side by side (default: ROLLTRACE_STORE, or ~/.rolltrace)",
        "STORE", nargs=-1, type=PATH,
    ),
    STORE_OPTION,
    _port("7655, or any free one"),
    _HOST,
    _TOKEN,
    option(
        "--allow-host NAME",
        "also accept this host name, such as a proxy's (NAME:PORT if its port is not the usual one)",
        multiple=True,
    ),
    option(
        "--root-path PATH",
        "path under which a proxy serves this, if the proxy passes it on (most take it off, and need no option)",
        default="",
    ),
    option("--certfile FILE", "certificate for HTTPS, in PEM format", type=_FILE),
    option("--keyfile FILE", "its private key (default: also in --certfile)", type=_FILE),
    option("--read-only", "no labels and notes can be written in the pages"),
    option(
        "--labels NAMES", "labels that the keys 1 to 9 give (default: good,bad,hack); a browser may have others set up"
    ),
    option("--no-browser", "only print the address"),
    epilog=_VIEW_EXAMPLES,
)  # fmt: skip
def view(options: Options) -> int:
    stores = _stores(options)
    token = _read_token(options)
    labels = {} if options.labels is None else {"labels": _labels(options.labels)}

    if options.keyfile is not None and options.certfile is None:
        raise ConfigError("--keyfile needs the certificate too: --certfile FILE")

    from rolltrace.tables import TableStore
    from rolltrace.view import checked_certificate, checked_root_path, listen, serve

    root_path = checked_root_path(options.root_path)
    certificate = None if options.certfile is None else checked_certificate(options.certfile, options.keyfile)
    for store in stores:
        TableStore(address_in(store)).check_format()  # an error of the store is told here, not in the browser
    listening = listen(options.host, options.port)
    address = listening.url("http" if certificate is None else "https", root_path)
    url = address + (f"?token={quote(token, safe='')}" if token else "")
    names = plain(", ".join(address_in(store).url for store in stores))
    print(f"rolltrace view of {names}\n  {url}\npress Ctrl-C to stop", flush=True)
    if not options.no_browser and has_browser():
        threading.Thread(target=_open_browser, args=(url,), daemon=True).start()
    from rolltrace.view import Writing, access_for  # brings the web server's libraries: a browser can start meanwhile

    with suppress(KeyboardInterrupt):  # the usual end
        access = access_for(options.host, listening.port, token, options.allow_host)
        writing = Writing(options.read_only, **labels)
        serve(stores, listening, access, writing, root_path=root_path, certificate=certificate)
    return 0


@command(
    "record the model calls of agents that cannot be changed",
    "A reverse proxy for the protocols of OpenAI, Anthropic and Gemini. Bytes pass as they come, both ways; a copy "
    "becomes a trajectory for each agent. An agent is pointed at it by its base URL, which "
    "rolltrace.proxied_env(trajectory) makes for a trajectory of yours. When it listens on more than this machine's "
    "own address, it requires a token, which is part of the printed address.",
    option("--upstream URL", "the server that answers", required=True),
    _port("7656, or any free one"),
    _HOST,
    _TOKEN,
    option("--allow-host NAME", "also accept this host name", multiple=True),
    option(
        "--key-from VARIABLE",
        "environment variable with the key of the upstream, for agents that show none or their context instead",
    ),
    option("--enrich", "ask the upstream (vLLM, SGLang) for token ids, logprobs and usage too; agents do not see them"),
    option("--project P", "what the work is called"),
    option("--experiment E", "what this experiment is called (default: proxy)"),
    STORE,
    epilog=_PROXY_EXAMPLES,
)
def proxy(options: Options) -> int:
    import rolltrace
    from rolltrace.proxy import VARIABLE, Proxy, Upstream, serve
    from rolltrace.settings import variable_of
    from rolltrace.view import access_for, listen

    token = _read_token(options)
    upstream = Upstream(options.upstream)
    key = None if options.key_from is None else os.environ.get(options.key_from)
    if options.key_from is not None and not key:
        raise ConfigError(f"--key-from names the environment variable {options.key_from!r}, which is not set")
    experiment = options.experiment or os.environ.get(variable_of("experiment_name")) or "proxy"
    rolltrace.init(options.project, experiment, "rolltrace", store=options.store, quiet=True)
    listening = listen(options.host, options.port, usual=_PROXY_PORT)
    address = listening.url().rstrip("/") + (f"/k/{token}" if token else "")
    access = access_for(options.host, listening.port, token, options.allow_host)
    print(
        f"rolltrace proxy of {options.upstream}\n  {address}\n"
        f"point agents at it: ANTHROPIC_BASE_URL={address}  OPENAI_BASE_URL={address}/v1  "
        f"GOOGLE_GEMINI_BASE_URL={address}\n"
        f"or for trajectories of yours: {VARIABLE}={address} and rolltrace.proxied_env(trajectory)\n"
        "press Ctrl-C to stop",
        flush=True,
    )
    with suppress(KeyboardInterrupt):
        serve(Proxy(upstream, access, key=key, enrich=options.enrich), listening)
    rolltrace.shutdown()
    return 0


@command(
    "receive spans of agents that use OpenTelemetry",
    "A receiver of OTLP over HTTP (protobuf and JSON): each trace becomes a trajectory, its model and tool calls "
    "become ops. Coordinates come from rl.* attributes. When it listens on more than this machine's own address, "
    "senders must show a token.",
    STORE,
    _HOST,
    option(
        "--port PORT", f"port to listen on (default: {_OTLP_PORT}; 0: any free)", type=click.INT, default=_OTLP_PORT
    ),
    _TOKEN,
    option("--project NAME", "for spans that name none (default: collected)", default="collected"),
    option("--experiment NAME", "for spans that name none (default: otlp)", default="otlp"),
    epilog=_COLLECT_EXAMPLES,
)
def collect(options: Options) -> int:
    from rolltrace.collect import Collector, Home
    from rolltrace.settings import Settings
    from rolltrace.view import listen

    store = options.store_path(may_be_new=True, to_write=True)
    token = _read_token(options)
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

    with suppress(KeyboardInterrupt):
        serve_collector(collector, listening, token)
    return 0


def _stores(options: Options) -> list[Path]:
    named = [*options.stores, *([options.store] if options.store else [])] or [None]
    stores = [find_store(each, may_be_empty=True) for each in named]
    return list(dict.fromkeys(store.resolve() for store in stores)) if len(stores) > 1 else stores


def _read_token(options: Options) -> str | None:
    """What clients must show: what was given, else something random unless only this machine can ask."""
    token: str | None = options.token
    if token is not None:
        if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable():
            raise ConfigError(f"a token has at least {_MIN_TOKEN} printable ASCII characters, not {len(token)}")
        return token
    from rolltrace.view import is_loopback

    return None if is_loopback(options.host) else secrets.token_urlsafe(24)


def _labels(names: str) -> tuple[str, ...]:
    from rolltrace.query import label_body

    labels = tuple(name.strip() for name in names.split(",") if name.strip())
    if len(labels) > _MAX_LABELS:
        raise ConfigError(f"there are keys for {_MAX_LABELS} labels, not for {len(labels)}")
    for name in labels:
        label_body(name, "yes")  # raises if it is none
    return labels


def has_browser() -> bool:
    """Whether somebody sits at a terminal with a display."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_browser(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
