"""Files on object storage; and small files that all hosts of a store share and that are no tables: live snapshots,
what pass means, the format. In a folder these are files of it, in a bucket objects below the store's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rolltrace._address import StoreAddress
from rolltrace.files import check_inside, make_folder, read_page, replace_file
from rolltrace.tables.outage import translate_errors

_SUFFIX = ".json"
_MAX_BYTES = 64 << 20


def read_shared(address: StoreAddress, folder: str) -> dict[str, bytes]:
    """The shared files directly in a folder, by name; those that cannot be read are left out.

    Raises:
        OutageError: object storage does not answer.
        BackendError: there is no such bucket, or it does not let us in.
    """
    files: dict[str, bytes] = {}
    if address.folder is not None:
        for path in sorted((address.folder / folder).glob(f"*{_SUFFIX}")):
            try:
                files[path.name] = read_page(path)
            except OSError:
                continue
        return files
    from pyarrow.fs import FileSelector

    with translate_errors(address, f"reading {folder or 'the store'}"):
        selector = FileSelector(folder, allow_not_found=True)
        found = [file for file in open_storage(address.url).get_file_info(selector) if file.path.endswith(_SUFFIX)]
        storage: Any = open_storage(address.url, {file.path: file.size for file in found}) if found else None
        for file in sorted(found, key=lambda file: file.path):
            try:
                with storage.open_input_stream(file.path) as stream:
                    files[file.base_name] = bytes(stream.read(_MAX_BYTES))
            except FileNotFoundError:
                continue
    return files


def write_shared(address: StoreAddress, path: str, content: bytes) -> None:
    """Replace a file as a whole.

    Raises:
        OSError: it cannot be written; OutageError and BackendError as `read_shared`.
    """
    if address.folder is None:
        upload(address, "", path, content)
        return
    check_inside(address.folder, address.folder / path)
    make_folder((address.folder / path).parent)
    replace_file(address.folder / path, content)


def remove_shared(address: StoreAddress, path: str) -> None:
    """Remove a file, if it is there.

    Raises:
        OSError: it cannot be removed; OutageError and BackendError as `read_shared`.
    """
    if address.folder is not None:
        check_inside(address.folder, address.folder / path)
        (address.folder / path).unlink(missing_ok=True)
        return
    with translate_errors(address, f"removing {path}"):
        try:
            open_storage(address.url).delete_file(path)
        except FileNotFoundError:
            pass


def upload(address: StoreAddress, table: str, path: str, content: bytes) -> None:
    """Write an object of a table, or of the store itself if the table is empty.

    Raises:
        OutageError, BackendError: as `read_shared`.
    """
    with translate_errors(address, f"writing {path}"):
        # Not through pyarrow's streams: since version 20 these hand on buffers, and deltalake takes only bytes.
        stream = open_handler(address.table(table) if table else address.url)._handler.open_output_stream(path, None)
        try:
            stream.write(content)
        finally:
            stream.close()


def open_storage(url: str, sizes: Mapping[str, int] | None = None) -> Any:
    """The files below an address on object storage, for pyarrow.

    Args:
        url: The address.
        sizes: How large the files are that will be read: without that, each is asked for its size first.
    """
    from pyarrow.fs import PyFileSystem

    if sizes is None:
        return PyFileSystem(open_handler(url))
    from deltalake.fs import DeltaStorageHandler

    return PyFileSystem(DeltaStorageHandler(url, StoreAddress(url).options(), dict(sizes)))


@lru_cache(maxsize=64)
def open_handler(url: str) -> Any:
    """The same, for what is done again and again: it keeps its connections."""
    from deltalake.fs import DeltaStorageHandler

    return DeltaStorageHandler(url, StoreAddress(url).options())
