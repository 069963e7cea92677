"""`rolltrace export html`: one file with the viewer's own pages of a trajectory, a group or a comparison."""

from __future__ import annotations

from typing import TextIO

from rolltrace.exchange import Exported, Selection
from rolltrace.view.page_file import html_of
from rolltrace.view.share import share_trajectories


def write(selection: Selection, out: TextIO) -> Exported:
    """Write the file.

    Raises:
        ConfigError: nothing was chosen, or more than a file can hold.
    """
    shared = share_trajectories(selection.store, selection.rows, named=selection.named, leave_out=selection.leave_out)
    out.write(html_of(shared))
    return Exported(len(shared.trajectory_ids), shared.left_out)
