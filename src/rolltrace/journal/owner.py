"""Whose a file or store is, and what to say where we may not read or write it."""

from __future__ import annotations

import os
from pathlib import Path


def user_name(uid: int) -> str:
    """The name of a user; its number where that has none here, as in a container."""
    import pwd  # not in the hot path

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def owner_of(path: Path) -> str | None:
    """Who else owns a file; None if it is ours, or if nobody can tell."""
    try:
        uid = path.stat().st_uid
    except OSError:
        return None
    return None if uid == os.geteuid() else user_name(uid)


def read_problem(path: Path, fault: OSError) -> str:
    """Why a file cannot be read."""
    why = fault.strerror or str(fault) or type(fault).__name__
    owner = owner_of(path) if isinstance(fault, PermissionError) else None
    return why if owner is None else f"{why}: it belongs to {owner}"


def write_problem(store: Path) -> str | None:
    """Why we cannot write to a store; None if we can, as far as its folder tells."""
    if os.access(store, os.W_OK | os.X_OK):
        return None
    try:
        if os.statvfs(store).f_flag & os.ST_RDONLY:
            return "it is mounted read-only"
        mode = store.stat().st_mode & 0o777
    except OSError as fault:
        return fault.strerror or str(fault)
    owner = owner_of(store)
    if owner is not None:
        return f"it belongs to {owner}, and you are {user_name(os.geteuid())}"
    return f"its folder is read-only (mode {mode:03o})"
