"""The address of a trajectory in the viewer, for vendors to show: `ROLLTRACE_VIEW_URL` says where that runs."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

VARIABLE = "ROLLTRACE_VIEW_URL"


def view_link(trajectory_id: str) -> str | None:
    """The page of a trajectory; None if nobody said where the viewer runs, or what was said is no web address.

    It is the same whichever store has the trajectory, and however many the viewer shows.
    """
    base = web_address(os.environ.get(VARIABLE, ""))
    return None if base is None else f"{base}/t/{trajectory_id}"


def web_address(text: str) -> str | None:
    """An address of http or https without credentials, query and final slash; None if it is none."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, name if port is None else f"{name}:{port}", parts.path.rstrip("/"), "", ""))
