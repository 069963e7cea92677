"""Say of a payload that it was pruned, when and by what, instead of showing nothing.

`store.prune` leaves a note in each trajectory. Stores that were pruned before it did so have none: there, an op that
ended and has no payload was pruned at some time, by somebody.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rolltrace.flags import UNREADABLE
from rolltrace.store import PRUNED

Row = dict[str, Any]
PRUNED_KEY = "$pruned"
"""Stands, with the text of a `Pruning`, where a payload was."""


@dataclass(frozen=True)
class Pruning:
    """When payloads went, and why. As text: `payload pruned on 2026-11-17 by prune --older-than 30d`."""

    time_ns: int | None = None
    """None if that was not recorded."""
    policy: str | None = None
    """The command or the retention policy; None if that was not recorded."""
    whole: bool = False
    """Ops went too, not only payloads."""

    def __str__(self) -> str:
        day = "" if self.time_ns is None else time.strftime(" on %Y-%m-%d", time.localtime(self.time_ns / 1e9))
        return f"payload pruned{day}{'' if self.policy is None else f' by {self.policy}'}"

    @property
    def mark(self) -> dict[str, str]:
        """What stands in the place of a payload."""
        return {PRUNED_KEY: str(self)}


def pruning_of(notes: Sequence[Row], spans: Sequence[Row] = (), findings: Sequence[Row] = ()) -> Pruning | None:
    """How the trajectory of these rows was pruned; None if it was not. The body of a note is parsed.

    Without `spans`, which have a `payload`, only the notes are asked.
    """
    last = max((note for note in notes if note["event"] == PRUNED), key=lambda note: note["time_ns"], default=None)
    if last is not None:
        body = last["body"] if isinstance(last["body"], dict) else {}
        return Pruning(last["time_ns"], body.get("policy"), bool(body.get("whole")))
    unread = {finding["op_id"] for finding in findings if finding["flag"] == UNREADABLE.name}
    if any(span["payload"] is None and span["op_id"] not in unread for span in spans):
        return Pruning()
    return None
