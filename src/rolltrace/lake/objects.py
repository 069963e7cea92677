"""The files of a lake: put, get, list. Each one appears whole, and is never changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.errors import FormatError
from rolltrace.files import open_private, replacing
from rolltrace.lake.faults import PartGone, told
from rolltrace.lake.place import Place, check_installed
from rolltrace.record import FORMAT

_CHUNK_BYTES = 8 << 20


class Objects:
    """The files below one address, by their path from there."""

    def __init__(self, place: Place, below: str = "") -> None:
        check_installed()
        from deltalake.fs import DeltaStorageHandler

        self._place = place
        if place.folder is not None:
            (place.folder / below).mkdir(parents=True, exist_ok=True)
        with told(place, "opening it"):
            # Its streams are used without pyarrow's wrapper, which hands on buffers that deltalake does not take.
            self._handler: Any = DeltaStorageHandler(f"{place.url}/{below}".rstrip("/"), place.options())._handler

    def put_file(self, path: str, file: Path) -> int:
        """Put a local file there, byte for byte; how many bytes."""
        with open_private(file) as source:
            return self._put(path, iter(lambda: source.read(_CHUNK_BYTES), b""))

    def put(self, path: str, content: bytes) -> None:
        self._put(path, iter([content]))

    def _put(self, path: str, chunks: Iterator[bytes]) -> int:
        size = 0
        with told(self._place, f"putting {path}"):
            stream = self._handler.open_output_stream(path, None)
            for chunk in chunks:
                stream.write(chunk)
                size += len(chunk)
            stream.close()
        return size

    def get(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            PartGone: there is none.
        """
        with told(self._place, f"getting {path}"):
            try:
                file = self._handler.open_input_file(path)
            except FileNotFoundError:
                raise PartGone(f"the lake {self._place.url!r} has no {path}") from None
            return bytes(file.read())

    def get_file(self, path: str, file: Path, *, mode: int) -> None:
        """Get a file into a local one, which appears whole.

        Raises:
            PartGone: there is none.
        """
        with told(self._place, f"getting {path}"), replacing(file, mode=mode) as hidden, hidden.open("wb") as target:
            try:
                source = self._handler.open_input_file(path)
            except FileNotFoundError:
                raise PartGone(f"the lake {self._place.url!r} has no {path}") from None
            while chunk := source.read(_CHUNK_BYTES):
                target.write(chunk)

    def list(self, folder: str) -> dict[str, int]:
        """The files in a folder and below it, by path, with their sizes."""
        with told(self._place, f"listing {folder}"):
            entries = self._handler.get_file_info_selector(folder, True, True)
            return {entry.path: entry.size for entry in entries if entry.size is not None}

    def remove(self, path: str) -> None:
        with told(self._place, f"removing {path}"):
            try:
                self._handler.delete_file(path)
            except FileNotFoundError:
                pass


def check_lake(place: Place, objects: Objects) -> bool:
    """Whether there is a lake.

    Raises:
        FormatError: it was written by a newer rolltrace.
        BackendError, OutageError: it cannot be read.
    """
    try:
        page = objects.get("format.json")
    except PartGone:
        return False
    try:
        version = json.loads(page)["format"]
    except (ValueError, KeyError, TypeError):
        raise FormatError(
            f'format.json of the lake {place.url!r} is damaged; it should read {{"format": {FORMAT}}}'
        ) from None
    if not isinstance(version, int) or version > FORMAT:
        raise FormatError(
            f"the lake {place.url!r} was written by a newer rolltrace (format {version}, this one reads {FORMAT}); "
            "upgrade with: pip install -U rolltrace"
        )
    return True
