"""Where a store is: a folder, or an address on object storage, and how to get in.

    /path/to/folder         or file:///path/to/folder
    s3://bucket/prefix      also s3a://; any service that speaks S3, with AWS_ENDPOINT_URL
    gs://bucket/prefix
    az://container/prefix   also abfs://, abfss://

Credentials are those that every tool of the vendor reads: AWS_ACCESS_KEY_ID, AWS_PROFILE, a role, ...
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rolltrace.errors import ConfigError
from rolltrace.settings import is_address

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")
_TIMEOUT_VARIABLE = "ROLLTRACE_STORE_TIMEOUT"
_DEFAULT_TIMEOUT_SEC = "60"


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
