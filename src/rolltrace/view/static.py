"""The files of the viewer, read from the package once. A request is looked up in a table: no path reaches the disk."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from rolltrace.view.root import page_at

if TYPE_CHECKING:
    from importlib.abc import Traversable  # its place since 3.11 is not there in 3.10

_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
    ".json": "application/json", ".txt": "text/plain; charset=utf-8", ".map": "application/json",
    ".webmanifest": "application/manifest+json",
}  # fmt: skip
_COMPRESSED = frozenset({".html", ".js", ".css", ".svg", ".json", ".map", ".txt"})
INDEX = "/index.html"
NOT_BUILT = b"""<!doctype html><meta charset="utf-8"><title>rolltrace</title>
<p>The pages of the viewer are not built in this checkout. Build them with <code>make viewer</code>;
the data is at <a href="./api/status">api/status</a>.</p>
"""


class StaticFile(NamedTuple):
    """One file."""

    body: bytes
    compressed: bytes | None
    media_type: str
    etag: str
    immutable: bool
    """Its name holds a hash of its content."""


def static_files() -> dict[str, StaticFile]:
    """Every file of the viewer by its path in the URL."""
    by_path: dict[str, StaticFile] = {}
    root = files("rolltrace.view") / "static"
    if root.is_dir():
        _collect(root, "", by_path)
    by_path.setdefault(INDEX, _file("index.html", NOT_BUILT, immutable=False))
    return by_path


def index_at(root: str, index: StaticFile) -> StaticFile:
    """The page, for an address from which the root is there."""
    return _file("index.html", page_at(root, index.body), immutable=False)


def _collect(folder: Traversable, path: str, files: dict[str, StaticFile]) -> None:
    for entry in folder.iterdir():
        place = f"{path}/{entry.name}"
        if entry.is_dir():
            _collect(entry, place, files)
        elif _suffix(entry.name) in _TYPES:
            files[place] = _file(entry.name, entry.read_bytes(), immutable=place.startswith("/assets/"))


def _file(name: str, body: bytes, *, immutable: bool) -> StaticFile:
    suffix = _suffix(name)
    compressed = gzip.compress(body, 6, mtime=0) if suffix in _COMPRESSED else None
    return StaticFile(body, compressed, _TYPES[suffix], f'"{xxhash.xxh3_64_hexdigest(body)}"', immutable)


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
