"""`rolltrace view`: look at a store in a browser."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rolltrace._address import address_in
from rolltrace.cli.options import add_store, store_of
from rolltrace.cli.output import plain
from rolltrace.errors import ConfigError

_SHORTEST_TOKEN = 16
_MOST_LABELS = 9


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "view",
        help="look at a store in a browser",
        description="A local web application for stores: experiments, steps, groups, trajectories, tokens, and what "
        "is running now. It sends nothing anywhere, and writes nothing but the labels and notes that people give. "
        "When it listens on more than this machine's own address, it requires a token, which is part of the printed "
        "link.",
        epilog="""examples:
  rolltrace view --port 8000
  rolltrace view runs/a runs/b    two stores side by side
  ssh -L 7655:127.0.0.1:7655 HOST rolltrace view --no-browser""",
    )
    parser.add_argument(
        "stores", nargs="*", metavar="STORE",
        help="the store folder, or several to see side by side (default: ROLLTRACE_STORE, or ~/.rolltrace)",
    )  # fmt: skip
    add_store(parser, last=False)
    parser.add_argument("--port", type=int, help="port to listen on (default: 7655, or any free one)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--token", help="token to require (default: none on 127.0.0.1, else a random one)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="also accept this host name, such as a proxy's (NAME:PORT if its port is not the usual one)",
    )
    parser.add_argument(
        "--root-path",
        default="",
        metavar="PATH",
        help="path under which a proxy serves this, if the proxy passes it on (most take it off, and need no option)",
    )
    parser.add_argument("--certfile", type=Path, metavar="FILE", help="certificate for HTTPS, in PEM format")
    parser.add_argument("--keyfile", type=Path, metavar="FILE", help="its private key (default: also in --certfile)")
    parser.add_argument("--read-only", action="store_true", help="no labels and notes can be written in the pages")
    parser.add_argument(
        "--labels",
        metavar="NAMES",
        help="labels that the keys 1 to 9 give (default: good,bad,hack); a browser may have others set up",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    stores = _stores(options)
    token = token_of(options)
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

    try:
        access = access_for(options.host, listening.port, token, options.allow_host)
        writing = Writing(options.read_only, **labels)
        serve(stores, listening, access, writing, root_path=root_path, certificate=certificate)
    except KeyboardInterrupt:  # the usual end
        pass
    return 0


def _stores(options: argparse.Namespace) -> list[Path]:
    named = options.stores or [None]
    if options.stores and options.store_option is not None:
        named = [*options.stores, options.store_option]
        options.store_option = None
    stores = [store_of(argparse.Namespace(**{**vars(options), "store": each}), may_be_empty=True) for each in named]
    return list(dict.fromkeys(store.resolve() for store in stores)) if len(stores) > 1 else stores


def token_of(options: argparse.Namespace) -> str | None:
    """What clients must show: what was given, else something random unless only this machine can ask."""
    token: str | None = options.token
    if token is not None:
        if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
            raise ConfigError(f"a token has at least {_SHORTEST_TOKEN} printable ASCII characters, not {len(token)}")
        return token
    from rolltrace.view import is_loopback

    return None if is_loopback(options.host) else secrets.token_urlsafe(24)


def _labels(names: str) -> tuple[str, ...]:
    from rolltrace.query import label_body

    labels = tuple(name.strip() for name in names.split(",") if name.strip())
    if len(labels) > _MOST_LABELS:
        raise ConfigError(f"there are keys for {_MOST_LABELS} labels, not for {len(labels)}")
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
