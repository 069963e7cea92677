"""Where a vendor shows what was sent to it: for each run of an experiment, addresses by name.

    STORE/outbox/BACKEND/links/HASH.json     {"MLflow run": "https://...", "MLflow trace": "https://.../tr-{id}"}

`{id}` in an address stands for the id of a trajectory, `{uuid}` for the same with dashes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

import xxhash

from rolltrace.files import make_folder, replace_file
from rolltrace.tables.routes import outbox_folder, outboxes

_MAX_CHARS = 2_000
_MAX_LINKS = 8


def save_links(
    store: Path, backend: str, project: str, experiment: str, run: str | None, links: Mapping[str, str]
) -> None:
    """Remember where a backend shows a run, if that is new."""
    path = _file(store, backend, project, experiment, run)
    text = json.dumps(dict(links), sort_keys=True).encode()
    if not path.exists() or path.read_bytes() != text:
        make_folder(path.parent)
        replace_file(path, text)


def links_of(store: Path, project: str, experiment: str, run: str | None, trajectory_id: str) -> dict[str, str]:
    """Where vendors show a trajectory and its run: name -> address, of http or https."""
    links: dict[str, str] = {}
    for backend in outboxes(store):
        try:
            addresses = json.loads(_file(store, backend, project, experiment, run).read_bytes())
        except (OSError, ValueError):  # nothing is known
            continue
        for name, address in list(addresses.items())[:_MAX_LINKS] if isinstance(addresses, dict) else ():
            if isinstance(address, str) and address.startswith(("http://", "https://")) and len(address) <= _MAX_CHARS:
                ids = address.replace("{id}", trajectory_id).replace("{uuid}", str(uuid.UUID(hex=trajectory_id)))
                links[str(name)[:100]] = ids
    return links


def _file(store: Path, backend: str, project: str, experiment: str, run: str | None) -> Path:
    key = "\0".join((project, experiment, run or ""))
    name = xxhash.xxh3_128_hexdigest(key.encode("utf-8", "backslashreplace"))
    return outbox_folder(store, backend) / "links" / f"{name}.json"
