"""A shared page as one HTML file (`rolltrace export html`): style, script and data in it, and nothing that is loaded
from anywhere.

The script and the data are compressed and written in base64, whose letters end no element: whatever was traced stays
inside. The page's policy names its two scripts and its style by their hashes, and forbids everything else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple, TextIO

from rolltrace.errors import RolltraceError
from rolltrace.exchange import Exported, Selection
from rolltrace.record import plain_text
from rolltrace.view.share import SharedFile, share_trajectories

_FOLDER = "shared_page"
_LEVEL = 6


class _Parts(NamedTuple):
    loader: str
    style: str
    script: str
    """Compressed, in base64."""
    policy: str


@cache
def _parts() -> _Parts:
    folder = files("rolltrace.view") / _FOLDER
    try:
        loader, style, script = ((folder / name).read_text("utf-8") for name in ("loader.js", "style.css", "script.js"))
    except FileNotFoundError:
        raise RolltraceError("the shared page is not built in this checkout; build it with: make viewer") from None
    policy = (
        f"default-src 'none'; script-src {_hash(loader)} {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _Parts(loader, style, _packed(script.encode()), policy)


def html_of(shared: SharedFile) -> str:
    """The file."""
    parts = _parts()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{parts.policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(plain_text(shared.title[:200]))} · rolltrace</title>\n"
        f"<style>{parts.style}</style>\n<script>{parts.loader}</script></head>\n<body>\n"
        f'<div id="root"><div class="plain">{shared.plain}</div></div>\n'
        f'<script type="text/plain" id="rolltrace-script">{parts.script}</script>\n'
        f'<script type="text/plain" id="rolltrace-data">{_packed(shared.data)}</script>\n'
        "</body></html>\n"
    )


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, _LEVEL, mtime=0)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write(selection: Selection, out: TextIO) -> Exported:
    """Write the file.

    Raises:
        ConfigError: nothing was chosen, or more than a file can hold.
    """
    shared = share_trajectories(selection.store, selection.rows, named=selection.named, leave_out=selection.leave_out)
    out.write(html_of(shared))
    return Exported(len(shared.trajectory_ids), shared.left_out)
