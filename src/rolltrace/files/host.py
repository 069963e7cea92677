"""Which machine this is, and which machine wrote a file of the store.

Several hosts may share one store folder. The name of a host is not enough to tell them apart: two machines may both be
called `node`, so a machine's id is part of it.
"""

from __future__ import annotations

import functools
import os
import re
import uuid
from pathlib import Path

import xxhash

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"), Path("/proc/sys/kernel/random/boot_id"))
"""Where the id of a machine is found. The last one, for containers without any, lasts until the machine restarts."""
_TAG = re.compile(r"(?:^|-)(h[0-9a-f]{8})(?:-|$)")


def host_name() -> str:
    """The name of this host among all that share a store: its own name and a part of the id of the machine."""
    node = re.sub(r"[^A-Za-z0-9._-]", "_", os.uname().nodename) or "localhost"
    return f"{node}-{_machine()[:8]}"


def host_tag() -> str:
    """This host in nine letters, for the names of files."""
    return tag_of(host_name())


def tag_of(name: str) -> str:
    """The tag of the host with this name."""
    return f"h{xxhash.xxh3_64_hexdigest(name.encode())[:8]}"


def host_of(source: str) -> str | None:
    """The tag of the host that a writer, a segment or a part's source belongs to; None if its name has none."""
    tag = _TAG.search(source)
    return tag[1] if tag else None


@functools.lru_cache(maxsize=1)
def _machine() -> str:
    for path in _MACHINE_IDS:
        try:
            text = path.read_text().strip().replace("-", "")
        except OSError:
            continue
        if re.fullmatch(r"[0-9a-f]{32}", text):
            return text
    return f"{uuid.getnode():012x}"
