"""Where a lake is: an address on object storage or a shared folder, and how to get in.

    s3://bucket/prefix      also s3a://; any service that speaks S3, with AWS_ENDPOINT_URL
    gs://bucket/prefix
    az://container/prefix   also abfs://, abfss://
    file:///shared/folder   or just the path

Credentials are those that every tool of the vendor reads: AWS_ACCESS_KEY_ID, AWS_PROFILE, a role, ...
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import xxhash

from rolltrace.errors import ConfigError, MissingExtraError
from rolltrace.files import is_mirror
from rolltrace.record import TABLES
from rolltrace.settings import is_address

if TYPE_CHECKING:
    from rolltrace.lake.mirror import Mirror

VARIABLE = "ROLLTRACE_LAKE"
"""Names the lake of `init(backend=["rolltrace", "lake"])`."""
_TIMEOUT_VARIABLE = "ROLLTRACE_LAKE_TIMEOUT"
_TIMEOUT_SEC = "60"
SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")
_PACKAGES = ("deltalake", "obstore")


class LakeAddress(NamedTuple):
    """One lake."""

    url: str
    """Without a slash at its end; the path of a folder as it is."""

    @classmethod
    def of(cls, text: str | os.PathLike[str]) -> LakeAddress:
        """The lake at this address.

        Raises:
            ConfigError: it is none.
        """
        address = os.fspath(text)
        if not address:
            raise ConfigError("the address of a lake is empty; write one such as s3://bucket/prefix")
        if not is_address(address):
            return cls(os.path.abspath(os.path.expanduser(address)))
        parts = urlsplit(address)
        if parts.scheme not in SCHEMES:
            raise ConfigError(f"a lake is at {'://, '.join(SCHEMES)}:// or in a folder, not at {address!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                f"the address of a lake has no user, password or query, as {parts.scheme}://... has; credentials are "
                "read from the environment: docs/howto/lake.md"
            )
        if parts.scheme == "file":
            return cls(os.path.abspath(parts.path or "/"))
        if not parts.netloc:
            raise ConfigError(f"{address!r} names no bucket; write an address such as s3://bucket/prefix")
        return cls(address.rstrip("/"))

    @property
    def folder(self) -> Path | None:
        """The lake as a folder, if it is one."""
        return None if is_address(self.url) else Path(self.url)

    @property
    def name(self) -> str:
        """A name for files about it: the address as far as it can be read, and a hash of all of it."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.url).strip("-")[-40:].strip("-")
        return f"{readable}-{xxhash.xxh3_64_hexdigest(self.url.encode())[:8]}"

    def table(self, name: str) -> str:
        """The address of one of its tables."""
        return f"{self.url}/{name}"

    def options(self) -> dict[str, str]:
        """What deltalake is to know besides the vendor's own environment variables."""
        options = {
            "timeout": f"{os.environ.get(_TIMEOUT_VARIABLE) or _TIMEOUT_SEC}s",
            "connect_timeout": "10s",
            # Whoever ships tries again by itself, and whoever asks does not want to wait for minutes.
            "max_retries": "3",
            "retry_timeout": "30s",
        }
        if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["allow_http"] = "true"
        if self.url.startswith("s3"):
            options.setdefault("conditional_put", "etag")
            if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
                options["region"] = "us-east-1"
        return options


def check_installed() -> None:
    """Raise a MissingExtraError unless lakes can be used."""
    for package in _PACKAGES:
        try:
            import_module(package)
        except ImportError as fault:
            raise MissingExtraError(
                f"a lake needs the package {package!r}, which is not installed; pip install 'rolltrace[lake]'"
            ) from fault


def is_lake(folder: Path) -> bool:
    """Whether a folder is a lake and not a store."""
    # These do not raise if the folder is closed to us.
    has_table = any(os.path.isdir(folder / table.name / "_delta_log") for table in TABLES)
    return has_table and not os.path.exists(folder / "data")


def folder_of(named: str) -> str:
    """What to open for a store that somebody named: the folder that shows it, if it is a lake (mirror.py)."""
    if not is_address(named) and not is_lake(Path(os.path.expanduser(named))):
        return named
    from rolltrace.lake.mirror import mirror_of  # who opens a folder needs none of it

    return str(mirror_of(named))


def mirror_in(folder: Path) -> Mirror | None:
    """What a folder shows of a lake; None if it is a store of its own."""
    if not is_mirror(folder):
        return None
    from rolltrace.lake.mirror import open_mirror  # the same

    return open_mirror(folder)
