"""What every command shares: which store, how to print, how to show progress."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rolltrace.errors import StoreError
from rolltrace.settings import Settings


def add_store(parser: argparse.ArgumentParser) -> None:
    """The store as an optional argument."""
    parser.add_argument("store", nargs="?", help="the store folder (default: ROLLTRACE_STORE, or ~/.rolltrace)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def store_of(options: argparse.Namespace) -> Path:
    """The store a command was asked about; an error if it does not exist."""
    store = Settings.gather({"store": options.store}).store
    if not store.is_dir():
        raise StoreError(f"there is no store at {str(store)!r}; name one: rolltrace COMMAND STORE")
    return store


def json_line(fields: dict[str, Any]) -> str:
    """The fields as one line. Readable text stays so; what a terminal could not print, or would obey, is escaped."""
    text = json.dumps(fields, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(fields, default=str)


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(json_line(row))


def progress(what: str) -> Callable[[int, int], None]:
    """A function of (done, total) that draws a bar on stderr, if that is a terminal and it takes long enough."""
    begun = time.monotonic()
    shown = [False]

    def show(done: int, total: int) -> None:
        if not sys.stderr.isatty() or not total:
            return
        if done < total and time.monotonic() - begun < 0.5:
            return
        if done >= total and not shown[0]:
            return
        shown[0] = True
        filled = round(30 * done / total)
        line = f"\r{what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
        print(line, end="\n" if done >= total else "", file=sys.stderr, flush=True)

    return show
