"""The tokenizers of a store: `STORE/tokenizers/FINGERPRINT.json`, written once by whichever process comes first.

`FINGERPRINT.pending` is there from before the first record that names the tokenizer until the file is, and the drainer
waits meanwhile. A marker that is old was left by a process that died, and means nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from rolltrace.journal.access import make_folder, open_file
from rolltrace.journal.replace import replace_file
from rolltrace.journal.sync import sync_path

PENDING_SEC = 30.0
"""How long a marker is believed."""
_TAKE_OVER_SEC = 20.0
"""When another process that has the same tokenizer writes it instead. Before the drainer gives up waiting."""

_MOST_AHEAD_SEC = 5.0
"""By how much the clock of a file server may be ahead."""


def tokenizer_folder(store: Path) -> Path:
    return store / "tokenizers"


def tokenizer_file(store: Path, fingerprint: str) -> Path:
    return tokenizer_folder(store) / f"{fingerprint}.json"


def claim_tokenizer(store: Path, fingerprint: str) -> bool:
    """Whether it is this process that has to write the file: nobody has, and nobody is about to."""
    path = tokenizer_file(store, fingerprint)
    if path.exists():
        return False
    make_folder(path.parent)
    marker = path.with_suffix(".pending")
    try:
        os.close(open_file(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if _age_sec(marker) < _TAKE_OVER_SEC:
            return False
        marker.touch()
    return True


def write_tokenizer(store: Path, fingerprint: str, pages: Iterable[bytes]) -> None:
    """Write the file, all at once, and take the marker away, whatever comes."""
    path = tokenizer_file(store, fingerprint)
    try:
        replace_file(path, pages, durable=True)
        sync_path(path.parent.parent)  # the folder may be new
    finally:
        path.with_suffix(".pending").unlink(missing_ok=True)


def tokenizers_pending(store: Path) -> bool:
    """Whether some process is about to write a tokenizer. Removes the markers of processes that died."""
    pending = False
    for marker in tokenizer_folder(store).glob("*.pending"):
        if _age_sec(marker) < PENDING_SEC:
            pending = True
        else:
            marker.unlink(missing_ok=True)
    return pending


def _age_sec(path: Path) -> float:
    """How old a marker is. One from the future is of a clock that was set back since, and as old as can be."""
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    return age if age > -_MOST_AHEAD_SEC else float("inf")
