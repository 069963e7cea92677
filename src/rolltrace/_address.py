"""Where a store is: a folder, or an address on object storage, how to get in, and the local folder that stands for it.

    /path/to/folder         or file:///path/to/folder
    s3://bucket/prefix      also s3a://; any service that speaks S3, with AWS_ENDPOINT_URL
    gs://bucket/prefix
    az://container/prefix   also abfs://, abfss://

Everything that is not a table lies in a local folder: journals, tokenizers, what was sent to backends. Of a store in a
bucket that is `~/.rolltrace-remote/NAME-HASH`, with a file that says which bucket is meant, so that every part of
rolltrace can go on naming a store by its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple, TypeGuard
from urllib.parse import urlsplit

from rolltrace.errors import ConfigError

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")
_TIMEOUT_VARIABLE = "ROLLTRACE_STORE_TIMEOUT"
_DEFAULT_TIMEOUT_SEC = "60"
_ADDRESS_FILE = "address.json"
_HOMES = "~/.rolltrace-remote"
"""Not in `~/.rolltrace`, which is a store itself."""


def is_address(text: object) -> TypeGuard[str]:
    """Whether this is an address, such as that of a bucket, and not the path of a folder."""
    return isinstance(text, str) and "://" in text and text.partition("://")[0].isalnum()


class StoreAddress(NamedTuple):
    """One store."""

    url: str
    """The absolute path of a folder, or an address without a slash at its end."""

    @classmethod
    def parse(cls, text: str | os.PathLike[str]) -> StoreAddress:
        """Read what a user typed.

        Raises:
            ConfigError: it is no address of a store.
        """
        address = os.fspath(text)
        if not address:
            raise ConfigError("the address of a store is empty; write a folder, or s3://bucket/prefix")
        if not is_address(address):
            return cls(os.path.abspath(os.path.expanduser(address)))
        parts = urlsplit(address)
        if parts.scheme not in SCHEMES:
            raise ConfigError(f"a store is a folder or at {'://, '.join(SCHEMES)}://, not at {address!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                f"the address of a store has no user, password or query, as {parts.scheme}://... has; set the "
                "credentials in the environment, such as AWS_ACCESS_KEY_ID"
            )
        if parts.scheme == "file":
            return cls(os.path.abspath(parts.path or "/"))
        if not parts.netloc:
            raise ConfigError(f"{address!r} names no bucket; write an address such as s3://bucket/prefix")
        return cls(address.rstrip("/"))

    @property
    def folder(self) -> Path | None:
        """The store as a folder; None on object storage."""
        return None if is_address(self.url) else Path(self.url)

    def table(self, name: str) -> str:
        """The address of one of its tables."""
        return f"{self.url}/{name}"

    def options(self) -> dict[str, str]:
        """What deltalake needs besides the vendor's own environment variables."""
        if self.folder is not None:
            return {}
        options = {
            "timeout": f"{os.environ.get(_TIMEOUT_VARIABLE) or _DEFAULT_TIMEOUT_SEC}s",
            "connect_timeout": "10s",
            # The drainer tries again by itself, and a reader does not want to wait for minutes.
            "max_retries": "3",
            "retry_timeout": "30s",
        }
        if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["allow_http"] = "true"
        if self.url.startswith("s3"):
            options["conditional_put"] = "etag"
            if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
                options["region"] = "us-east-1"
        return options


def home_folder(text: str | os.PathLike[str]) -> Path:
    """The local folder of a store that a user named; made, if it is one of a bucket.

    Raises:
        ConfigError: it is no address of a store, or its folder cannot be made.
    """
    address = StoreAddress.parse(text)
    if address.folder is not None:
        return address.folder
    folder = _home_path(address)
    page = folder / _ADDRESS_FILE
    if not page.exists():
        try:
            for path in (folder.parent, folder):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = page.with_name(f".{page.name}.{os.getpid()}.new")
            fresh.write_text(json.dumps({"url": address.url}))
            fresh.replace(page)
        except OSError as error:
            raise ConfigError(
                f"cannot make {str(folder)!r}, where journals wait for {address.url!r}: {error}"
            ) from error
    return folder


def address_in(folder: Path) -> StoreAddress:
    """Where the tables of a store are, by its local folder."""
    try:
        with open(os.open(folder / _ADDRESS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as page:
            address = StoreAddress.parse(str(json.loads(page.read(1 << 16))["url"]))
        if folder.absolute() == _home_path(address):  # a folder that somebody else made leads nowhere else
            return address
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return StoreAddress(os.path.abspath(folder))


def _home_path(address: StoreAddress) -> Path:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", address.url).strip("-")[-40:].strip("-")
    digest = hashlib.blake2b(address.url.encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return Path(os.path.expanduser(_HOMES)) / f"{readable}-{digest}"
