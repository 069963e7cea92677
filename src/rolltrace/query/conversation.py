"""The messages of trajectories, read from the table `messages`, where a drainer has put each of them once.

They are there as they were produced, in that order: replies of the model, results of tools as their ops returned them,
and of prompts what was new. Rows of kind `rewrite` say where a prompt changed its history, and rows of kind `variant`
are messages as such a prompt has them. So the same rows tell the conversation *as produced* and *as one call saw it*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace.messages import MessageRow, read_ranges

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

Chat = dict[str, Any]
"""A message in OpenAI's chat format."""
_FIELDS = MessageRow.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
_READ = f"SELECT trajectory_id, {_COLUMNS} FROM messages WHERE {{where}} ORDER BY turn, seq"
"""Rows that were told late, after those of the next turns, stand where they belong."""
_FIRST_TRAJECTORIES = 8
_MAX_TRAJECTORIES = 256
_WINDOW_CHARS = 8 << 20
_REASONING_ONLY = frozenset({"reasoning_stripped", "tokens"})


class Transcripts:
    """The messages of some trajectories, in the order in which these will most likely be asked for.

    Some trajectories are read at once, learned from how long they were; one that is asked for again is read again.
    """

    def __init__(self, store: Store, trajectory_ids: Sequence[str], scope: Any) -> None:
        self._store = store
        self._ids = trajectory_ids
        self._scope = scope
        self._count = _FIRST_TRAJECTORIES
        self._rows: dict[str, list[MessageRow]] = {}

    def rows(self, trajectory_id: str) -> list[MessageRow]:
        """All rows of a trajectory, in their order."""
        rows = self._rows.get(trajectory_id)
        if rows is None:
            first = self._ids.index(trajectory_id)
            ids = self._ids[first : first + self._count]
            self._rows = read = self._read(ids)
            chars = sum(len(row.text or "") + len(row.reasoning or "") for each in read.values() for row in each)
            self._count = max(1, min(2 * self._count, len(ids) * _WINDOW_CHARS // max(chars, 1), _MAX_TRAJECTORIES))
            rows = read[trajectory_id]
        return rows

    def release(self) -> None:
        """Give back what was read."""
        self._rows = {}

    def _read(self, ids: Sequence[str]) -> dict[str, list[MessageRow]]:
        where, values = "trajectory_id = ?", list[Any](ids)
        if len(ids) > 1:
            where, values = "trajectory_id IN (SELECT unnest(?::VARCHAR[]))", [list(ids)]
        by_id: dict[str, list[MessageRow]] = {each: [] for each in ids}
        for row in self._store._ask(_READ.format(where=where), values, self._scope, plain=True).rows():
            by_id[row.pop("trajectory_id")].append(MessageRow(**row))
        for rows in by_id.values():
            if len({row.seq for row in rows}) < len(rows):  # drainers of several hosts, each of which counts from 0
                rows.sort(key=lambda row: (row.time_ns, row.seq))
        return by_id


def as_produced(rows: Iterable[MessageRow]) -> list[MessageRow]:
    """The messages as they were produced, and where their history was rewritten.

    A harness that strips the reasoning off every reply rewrites history at every turn: that is marked once.
    """
    shown: list[MessageRow] = []
    strips = False
    for row in rows:
        if row.kind == "rewrite":
            stripped_before, strips = strips, row.read_detail().keys() <= _REASONING_ONLY
            if strips and stripped_before:
                continue
        if row.kind != "variant":
            shown.append(row)
    return shown


def as_seen(rows: Sequence[MessageRow], saw: str, turn: int) -> list[MessageRow]:
    """The messages that a model call was given.

    Args:
        rows: All rows of the trajectory.
        saw: What its op says.
        turn: Which turn it was.
    """
    by_seq = {row.seq: row for row in rows}
    marks = [row for row in rows if row.kind == "rewrite" and row.turn <= turn]
    stripped = {seq for mark in marks for seq in mark.read_detail().get("reasoning_stripped", ())}
    seen = [by_seq[seq] for seq in read_ranges(saw) if seq in by_seq and by_seq[seq].kind != "rewrite"]
    return [msgspec.structs.replace(row, reasoning=None) if row.seq in stripped else row for row in seen]


def to_chat(rows: Iterable[MessageRow]) -> list[Chat]:
    """Messages in OpenAI's chat format, without marks of rewrites."""
    return [row.to_message().to_chat() for row in rows if row.kind != "rewrite"]
