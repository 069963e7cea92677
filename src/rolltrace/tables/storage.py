"""Files on object storage, and what its errors mean; and small files that all hosts of a store share and that are no
tables: live snapshots, what pass means, the format. In a folder these are files of it, in a bucket objects below the
store's address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from rolltrace._address import StoreAddress
from rolltrace.errors import BackendError, OutageError, RolltraceError
from rolltrace.files import check_inside, make_folder, read_page, replace_file

_SUFFIX = ".json"
_MAX_BYTES = 64 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CODE_AND_MESSAGE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_MAX_CHARS = 400
_SOMEBODY_HAS_TO_ACT = (
    (
        ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"),
        "there is no such bucket, or it is in another region; create it first",
    ),
    (
        ("CredentialsNotLoaded", "no providers in chain", "169.254.169.254", "metadata.google.internal"),
        "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or what else your "
        "storage needs",
    ),
    (
        (
            "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
            "AuthenticationFailed", "403 Forbidden", "401 Unauthorized",
        ),
        "the credentials were refused ({})",
    ),
    (
        ("NotImplemented", "501 Not Implemented"),
        "this storage cannot create a file only if there is none (If-None-Match), which concurrent writers need ({})",
    ),
)  # fmt: skip
"""What errors of object storage say, and what that means."""


def describe_error(error: BaseException) -> str:
    """What an error says, in a line: without colours, and of an answer in XML what is for people."""
    text = _COLOURS.sub("", str(error))
    match = _CODE_AND_MESSAGE.search(text)
    if match is not None:
        return f"{match[1]}: {match[2] or ''}".strip(": ")
    return (" ".join(text.replace("↳", " ").split()) or type(error).__name__)[:_MAX_CHARS]


@contextmanager
def translate_errors(address: StoreAddress, doing: str) -> Iterator[None]:
    """Turn what deltalake raises in this block into an error of ours.

    Raises:
        BackendError: somebody has to act: no such bucket, no credentials, or wrong ones.
        OutageError: anything else; trying again later may help.
    """
    from deltalake.exceptions import DeltaError

    try:
        yield
    except RolltraceError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        for words, meaning in _SOMEBODY_HAS_TO_ACT:
            if any(word in str(error) for word in words):
                raise BackendError(f"the store {address.url!r}: {meaning.format(describe_error(error))}") from error
        raise OutageError(f"the store {address.url!r}: {doing} failed: {describe_error(error)}") from error


def read_shared(address: StoreAddress, folder: str) -> dict[str, bytes]:
    """The shared files directly in a folder, by name; those that cannot be read are left out.

    Raises:
        OutageError, BackendError: as `translate_errors`.
    """
    files: dict[str, bytes] = {}
    if address.folder is not None:
        for path in sorted((address.folder / folder).glob(f"*{_SUFFIX}")):
            with suppress(OSError):
                files[path.name] = read_page(path)
        return files
    from pyarrow.fs import FileSelector

    with translate_errors(address, f"reading {folder or 'the store'}"):
        selector = FileSelector(folder, allow_not_found=True)
        found = [file for file in open_storage(address.url).get_file_info(selector) if file.path.endswith(_SUFFIX)]
        storage: Any = open_storage(address.url, {file.path: file.size for file in found}) if found else None
        for file in sorted(found, key=lambda file: file.path):
            with suppress(FileNotFoundError), storage.open_input_stream(file.path) as stream:
                files[file.base_name] = bytes(stream.read(_MAX_BYTES))
    return files


def write_shared(address: StoreAddress, path: str, content: bytes) -> None:
    """Replace a file as a whole.

    Raises:
        OSError: it cannot be written; OutageError and BackendError as `translate_errors`.
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
        OSError: it cannot be removed; OutageError and BackendError as `translate_errors`.
    """
    if address.folder is not None:
        check_inside(address.folder, address.folder / path)
        (address.folder / path).unlink(missing_ok=True)
        return
    with translate_errors(address, f"removing {path}"), suppress(FileNotFoundError):
        open_storage(address.url).delete_file(path)


def upload(address: StoreAddress, table: str, path: str, content: bytes) -> None:
    """Write an object of a table, or of the store itself if the table is empty.

    Raises:
        OutageError, BackendError: as `translate_errors`.
    """
    with translate_errors(address, f"writing {path}"):
        # Not through pyarrow's streams: since version 20 these hand on buffers, and deltalake takes only bytes.
        stream = _open_handler(address.table(table) if table else address.url)._handler.open_output_stream(path, None)
        try:
            stream.write(content)
        finally:
            stream.close()


def open_storage(url: str, sizes: Mapping[str, int] | None = None) -> Any:
    """The files below an address on object storage, for pyarrow. Without their sizes, each is asked for its size
    first."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    if sizes is None:
        return PyFileSystem(_open_handler(url))
    return PyFileSystem(DeltaStorageHandler(url, StoreAddress(url).options(), dict(sizes)))


@lru_cache(maxsize=64)
def _open_handler(url: str) -> Any:
    """For what is done again and again: it keeps its connections."""
    from deltalake.fs import DeltaStorageHandler

    return DeltaStorageHandler(url, StoreAddress(url).options())
