"""Pages of the viewer inside a notebook: a frame that runs its own script and reaches nothing around it.

The frame is sandboxed, so that its script runs in an origin of its own. Where a front end takes frames or scripts out,
the same is there in few words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace._amounts import size
from rolltrace.errors import ConfigError
from rolltrace.exchange import select
from rolltrace.files import replacing
from rolltrace.query import Comparison, Result, Store, Trajectory
from rolltrace.record import plain_text
from rolltrace.view.export_html import html_of
from rolltrace.view.share import SharedFile, share_store, share_trajectories


class Page:
    """What `rolltrace.view(...)` gives: a page that a notebook shows, and that can be saved."""

    def __init__(self, shared: SharedFile, height: int) -> None:
        self._shared = shared
        self._height = height

    @cached_property
    def html(self) -> str:
        """The whole page: one file that loads nothing from anywhere."""
        return html_of(self._shared)

    @property
    def title(self) -> str:
        """What it is about."""
        return plain_text(self._shared.title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page into a file; one that is there is replaced."""
        with replacing(Path(path)) as file:
            file.write_text(self.html, encoding="utf-8", newline="\n")

    def _repr_html_(self) -> str:
        title = escape(self.title)
        return (
            f'<iframe title="{title}" srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            f'width="100%" height="{self._height}" style="border: 1px solid #8884"></iframe>'
            f"<details><summary>{title}, in few words</summary>{self._shared.plain}</details>"
        )

    def __repr__(self) -> str:
        return f"<{self.title}: a page of {size(len(self.html))}; .save('page.html') writes it>"


def page_of(shown: Any, *, store: str | os.PathLike[str] | None, height: int) -> Page:
    """See `rolltrace.view`."""
    if shown is None or isinstance(shown, str | os.PathLike | Store):
        opened = shown if isinstance(shown, Store) else rolltrace.open(store if shown is None else shown)
        return Page(share_store(opened), height)
    trajectories, paths = _chosen(shown)
    path = store if store is not None else next((each for each in paths if each is not None), None)
    if path is None and trajectories:
        raise ConfigError("it is not known which store they are from: rolltrace.view(..., store=FOLDER)")
    opened = rolltrace.open(path)
    rows = select(opened, trajectory_ids=trajectories).rows if trajectories else []
    return Page(share_trajectories(opened, rows, named=not isinstance(shown, Result)), height)


def _chosen(shown: Any) -> tuple[list[str], list[Path | None]]:
    """The ids of what is to be shown, and the stores that it is from."""
    if isinstance(shown, Result):
        if "trajectory_id" not in shown.columns:
            raise ConfigError(f"these rows are no trajectories: they have the columns {', '.join(shown.columns)[:200]}")
        return [row["trajectory_id"] for row in shown], [shown._store_path]
    trajectories = shown.trajectories if isinstance(shown, Comparison) else shown
    several = [trajectories] if isinstance(trajectories, Trajectory) else trajectories
    if not isinstance(several, Sequence) or not all(isinstance(each, Trajectory) for each in several):
        raise ConfigError(
            "rolltrace.view shows a store or its folder, a trajectory, a list of trajectories, a comparison, "
            f"or the rows of a query, not {type(shown).__name__}"
        )
    return [each.trajectory_id for each in several], [each._store_path for each in several]
