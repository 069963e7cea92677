"""Show: a local web server over `query`, and pages for files and notebooks. No business logic here.

The package has the name of its function: `rolltrace.view(trajectory)` calls it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from rolltrace._later import load_later
from rolltrace.view.listen import (
    Certificate,
    Listening,
    checked_certificate,
    checked_root_path,
    is_loopback,
    listen,
    serve,
    server_of,
)

if TYPE_CHECKING:
    from rolltrace.query import Comparison, Result, Store, Trajectory
    from rolltrace.view.connection import Connection
    from rolltrace.view.notebook import Page
    from rolltrace.view.security import Access, Guesses, access_for, host_name
    from rolltrace.view.server import application
    from rolltrace.view.writes import Writing

_LATER, __getattr__ = load_later(
    __name__,
    {
        "connection": "Connection",
        "security": "Access Guesses access_for host_name",
        "server": "application",
        "writes": "Writing",
    },
)

__all__ = [
    "Access",
    "Certificate",
    "Connection",
    "Guesses",
    "Listening",
    "Writing",
    "access_for",
    "application",
    "checked_certificate",
    "checked_root_path",
    "host_name",
    "is_loopback",
    "listen",
    "serve",
    "server_of",
]


class _Callable(ModuleType):
    """Python makes `rolltrace.view` this package as soon as anybody imports it, so the package itself is called."""

    def __call__(
        self,
        shown: Store | Trajectory | Comparison | Result | Sequence[Trajectory] | str | os.PathLike[str] | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        height: int = 640,
    ) -> Page:
        """The viewer's pages in a notebook, or as a file: `rolltrace.view(store.trajectory(id))`.

        What it gives is shown by Jupyter, VS Code and Colab as the last value of a cell; `.save("page.html")` writes
        it as a file that opens without a server. It holds all data of what is shown, and some 300 kB more.

        Args:
            shown: A trajectory; several, or a comparison, side by side; the rows of a query: one trajectory, one
                group, or up to eight side by side; a store, or its folder: its experiments and their charts. If not
                given, the store that `rolltrace.open()` opens.
            store: The folder of the store, of rows or trajectories that do not know theirs.
            height: Of the frame in a notebook, in pixels.

        Raises:
            ConfigError: it cannot be shown: too many trajectories, none, or none of these types.
            StoreError: there is no store in this folder.
        """
        from rolltrace.view.notebook import page_of

        return page_of(shown, store=store, height=height)


sys.modules[__name__].__class__ = _Callable
