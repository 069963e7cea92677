"""Which experiments go to which backend besides the store itself, and where its vendor shows what was sent.

    STORE/outbox/BACKEND/routes/HASH.json     {"project": ..., "experiment": ...}
    STORE/outbox/BACKEND/links/HASH.json      {"MLflow run": "https://...", "MLflow trace": "https://.../tr-{id}"}

One file per route, written once and never changed: writers on several hosts cannot lose each other's. One file of links
per run; `{id}` in an address stands for the id of a trajectory, `{uuid}` for the same with dashes.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import xxhash

from rolltrace.files import host_name, make_folder, read_page, replace_file

EMBEDDED = "rolltrace"
"""The store's own name among the backends: nothing needs to be sent there."""
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 120
_MAX_LINK_CHARS = 2_000
_MAX_LINKS = 8


Route = tuple[str, str]
"""Project and name of an experiment whose trajectories are sent."""


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
    route = {name: str(meta.get(name, "unknown")) for name in ("project", "experiment")}
    for backend in meta.get("backends") or ():
        path = outbox_folder(store, str(backend)) / "routes" / f"{_hash(*route.values())}.json"
        if backend != EMBEDDED and not path.exists():
            make_folder(path.parent)
            replace_file(path, json.dumps(route).encode(), durable=True)


def routes(store: Path, backend: str) -> set[Route]:
    """The experiments that go to a backend."""
    experiments = set()
    for path in (outbox_folder(store, backend) / "routes").glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # not one of ours
            page = json.loads(read_page(path))
            experiments.add((str(page["project"]), str(page["experiment"])))
    return experiments


def save_links(
    store: Path, backend: str, project: str, experiment: str, run: str | None, links: Mapping[str, str]
) -> None:
    """Remember where a backend shows a run, if that is new."""
    path = _links_file(store, backend, project, experiment, run)
    text = json.dumps(dict(links), sort_keys=True).encode()
    if not path.exists() or path.read_bytes() != text:
        make_folder(path.parent)
        replace_file(path, text)


def links_of(store: Path, project: str, experiment: str, run: str | None, trajectory_id: str) -> dict[str, str]:
    """Where vendors show a trajectory and its run: name -> address, of http or https."""
    links: dict[str, str] = {}
    for backend in outboxes(store):
        try:
            addresses = json.loads(_links_file(store, backend, project, experiment, run).read_bytes())
        except (OSError, ValueError):  # nothing is known
            continue
        for name, address in list(addresses.items())[:_MAX_LINKS] if isinstance(addresses, dict) else ():
            text = str(address)
            if text.startswith(("http://", "https://")) and len(text) <= _MAX_LINK_CHARS:
                text = text.replace("{id}", trajectory_id).replace("{uuid}", str(uuid.UUID(hex=trajectory_id)))
                links[str(name)[:100]] = text
    return links


def _links_file(store: Path, backend: str, project: str, experiment: str, run: str | None) -> Path:
    return outbox_folder(store, backend) / "links" / f"{_hash(project, experiment, run or '')}.json"


def _hash(*names: str) -> str:
    return xxhash.xxh3_128_hexdigest("\0".join(names).encode("utf-8", "backslashreplace"))
