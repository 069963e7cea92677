"""The files of a lake: put, get, list. Each one appears whole, and is never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from rolltrace.errors import FormatError
from rolltrace.files import open_private, replacing
from rolltrace.lake.address import LakeAddress, check_installed
from rolltrace.lake.faults import PartGone, translating
from rolltrace.record import FORMAT

_CHUNK_BYTES = 8 << 20


class Objects:
    """The files below one address, by their path from there.

    Other threads run while somebody waits for these; deltalake's own file functions keep them waiting.
    """

    def __init__(self, address: LakeAddress, below: str = "") -> None:
        check_installed()
        self._address = address
        with translating(address, "opening it"):
            self._store: Any = _open(address, below)

    def put_file(self, path: str, file: Path) -> int:
        """Put a local file there, byte for byte; how many bytes."""
        import obstore

        with open_private(file) as source:
            size = os.fstat(source.fileno()).st_size
            with translating(self._address, f"putting {path}"):
                obstore.put(self._store, path, source)
        return size

    def put(self, path: str, content: bytes) -> None:
        import obstore

        with translating(self._address, f"putting {path}"):
            obstore.put(self._store, path, content)

    def get(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            PartGone: there is none.
        """
        import obstore

        with translating(self._address, f"getting {path}"), _may_be_gone(self._address, path):
            return bytes(obstore.get(self._store, path).bytes())

    def get_file(self, path: str, file: Path, *, mode: int) -> None:
        """Get a file into a local one, which appears whole.

        Raises:
            PartGone: there is none.
        """
        import obstore

        with (
            replacing(file, mode=mode) as hidden,
            hidden.open("wb") as target,
            translating(self._address, f"getting {path}"),
            _may_be_gone(self._address, path),
        ):
            for chunk in obstore.get(self._store, path).stream(min_chunk_size=_CHUNK_BYTES):
                target.write(chunk)

    def list(self, folder: str) -> dict[str, int]:
        """The files in a folder and below it, by path, with their sizes."""
        import obstore

        with translating(self._address, f"listing {folder}"):
            return {each["path"]: each["size"] for chunk in obstore.list(self._store, folder) for each in chunk}

    def remove(self, path: str) -> None:
        import obstore

        with translating(self._address, f"removing {path}"):
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                pass


def _open(address: LakeAddress, below: str) -> Any:
    from obstore.store import LocalStore, from_url

    if address.folder is not None:
        return LocalStore(address.folder / below, mkdir=True)
    limits, open_url = address.options(), cast(Any, from_url)
    return open_url(
        f"{address.url}/{below}".rstrip("/"),
        client_options={
            "timeout": limits["timeout"],
            "connect_timeout": limits["connect_timeout"],
            "allow_http": limits.get("allow_http") == "true",
        },
        retry_config={
            "max_retries": int(limits["max_retries"]),
            "retry_timeout": timedelta(seconds=float(limits["retry_timeout"].rstrip("s"))),
        },
        **({"region": limits["region"]} if "region" in limits else {}),
    )


@contextmanager
def _may_be_gone(address: LakeAddress, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as fault:
        if "NoSuchBucket" in str(fault):
            raise OSError(str(fault)) from fault
        raise PartGone(f"the lake {address.url!r} has no {path}") from None


def check_lake(address: LakeAddress, objects: Objects) -> bool:
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
            f'format.json of the lake {address.url!r} is damaged; it should read {{"format": {FORMAT}}}'
        ) from None
    if not isinstance(version, int) or version > FORMAT:
        raise FormatError(
            f"the lake {address.url!r} was written by a newer rolltrace (format {version}, this one reads {FORMAT}); "
            "upgrade with: pip install -U rolltrace"
        )
    return True
