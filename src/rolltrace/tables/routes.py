"""Which experiments go to which backend besides the store itself.

    STORE/outbox/BACKEND/routes/HASH.json     {"project": ..., "experiment": ...}

One file per route, written once and never changed: writers on several hosts cannot lose each other's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import xxhash

from rolltrace.files import host_name, make_folder, read_page, replace_file

EMBEDDED = "rolltrace"
"""The store's own name among the backends: nothing needs to be sent there."""
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 120


class Route(NamedTuple):
    """An experiment whose trajectories are sent."""

    project: str
    experiment: str


def outbox_folder(store: Path, backend: str) -> Path:
    """Where everything about sending to one backend is kept."""
    name = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], backend.encode("utf-8", "backslashreplace")).decode()
    if len(name) > _MAX_NAME_CHARS:  # the name of no backend, but a journal may say anything
        name = xxhash.xxh3_128_hexdigest(name.encode())
    return store / "outbox" / name


def sender_folder(store: Path, backend: str) -> Path:
    """Where this host keeps what it has sent there."""
    return outbox_folder(store, backend) / host_name()


def outboxes(store: Path) -> list[str]:
    """The backends that this store was ever sent to, or is to be."""
    return sorted(unquote(folder.name) for folder in (store / "outbox").glob("*") if folder.is_dir())


def note_routes(store: Path, meta: Mapping[str, Any]) -> None:
    """Remember the backends that a journal's writer was set up with, if there are any."""
    for backend in meta.get("backends") or ():
        if backend != EMBEDDED:
            _note(
                store, str(backend), Route(str(meta.get("project", "unknown")), str(meta.get("experiment", "unknown")))
            )


def routes(store: Path, backend: str) -> set[Route]:
    """The experiments that go to a backend."""
    experiments = set()
    for path in (outbox_folder(store, backend) / "routes").glob("*.json"):
        try:
            page = json.loads(read_page(path))
            experiments.add(Route(str(page["project"]), str(page["experiment"])))
        except (OSError, ValueError, KeyError, TypeError):  # not one of ours
            continue
    return experiments


def _note(store: Path, backend: str, route: Route) -> None:
    name = xxhash.xxh3_128_hexdigest("\0".join(route).encode("utf-8", "backslashreplace"))
    path = outbox_folder(store, backend) / "routes" / f"{name}.json"
    if path.exists():
        return
    make_folder(path.parent)
    replace_file(path, json.dumps(route._asdict()).encode(), durable=True)
