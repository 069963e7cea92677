"""What a batch saw of each trajectory, as one partial row: sums, extremes, and the newest values with their time.

Rows of several batches become one by the reducers that `tables.columns` declares. Here the same is done inside a batch,
so that a trajectory has one row per batch however many records it has there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolltrace.tables import Place

TOP_RUNNING, TOP_ENDED, RUNNING, INTERRUPTED, ENDED = range(5)
"""How sure a status is (`status_rank`): that of an op outside of any trajectory counts least."""
_RANKS = {"running": RUNNING, "interrupted": INTERRUPTED}
MAX_PREVIEW_CHARS = 200
"""Of the task and the answer that a listing shows."""

_IDENTITY = (
    "sample_index", "sample_number", "rollout_n", "validate", "run", "run_ns", "worker", "name", "status", "error",
    "traceback", "end_ns", "parent_trajectory_id", "parent_op_id",
)  # fmt: skip
_NOTHING_YET = {"turns": 0, "tool_calls": 0, "tool_errors": 0, "records": 0, "open_ops": 0}
_NOT_OVER: dict[str, Any] = {"status": "running", "end_ns": None, "error": None, "traceback": None}
"""What an op says of a trajectory of which nothing else is known: that began, and has not ended."""


class PartialTrajectory:
    """What is known of one trajectory from one batch."""

    __slots__ = ("_order", "fields", "is_group", "place")

    def __init__(self, trajectory_id: str, place: Place) -> None:
        self.place = place
        self.is_group = False
        self.fields: dict[str, Any] = {"trajectory_id": trajectory_id, **place._asdict(), **_NOTHING_YET}
        self._order: tuple[int, int] = (-1, 0)

    def move(self, place: Place, *, is_group: bool) -> None:
        """It belongs elsewhere than its records said."""
        self.place, self.is_group = place, is_group
        self.fields.update(place._asdict())

    def _is_surest(self, start_ns: int | None, end_ns: int | None, rank: int) -> bool:
        """Whether nothing surer was seen than a row with these times, which are noted."""
        if start_ns is not None:
            self._least("start_ns", start_ns)
            self.touch(start_ns)
        if end_ns is not None:
            self.touch(end_ns)
        order = (rank, end_ns if end_ns is not None else -(start_ns or 0))
        if order < self._order:
            return False
        self._order = order
        self.fields["status_rank"] = rank
        return True

    def _identify(self, row: Mapping[str, Any]) -> None:
        self.fields.update(zip(_IDENTITY, map(row.get, _IDENTITY)))

    def own_row(self, row: Mapping[str, Any]) -> None:
        """A row of the trajectory itself: it began, ended, or was interrupted."""
        start_ns, end_ns, fields = row["start_ns"], row["end_ns"], self.fields
        if self._is_surest(start_ns, end_ns, _RANKS.get(row["status"], ENDED)):
            self._identify(row)
        tags_ns = end_ns or start_ns or 0
        if row.get("tags") is not None and tags_ns >= fields.get("tags_ns", -1):
            fields["tags"], fields["tags_ns"] = row["tags"], tags_ns

    def op_begun(self, row: Mapping[str, Any]) -> None:
        """An op began, and has not ended."""
        if self._is_surest(row["start_ns"], None, TOP_RUNNING):
            self._identify(row)
            self.fields.update(_NOT_OVER)
        self._add("open_ops", 1)

    def op_ended(self, op: Mapping[str, Any], answer: str | None, *, was_open: bool) -> None:
        """An op ended, or was open when its process died."""
        fields, kind, status, start_ns, version = (
            self.fields,
            op["kind"],
            op["status"],
            op["start_ns"],
            op["policy_version"],
        )
        is_top = op["parent_id"] is None and status != "running"
        if self._is_surest(start_ns, op["end_ns"] if is_top else None, TOP_ENDED if is_top else TOP_RUNNING):
            self._identify(op)
            if not is_top:
                fields.update(_NOT_OVER)
        fields["records"] += 1
        if was_open:
            fields["open_ops"] -= 1
        if kind == "llm":
            fields["turns"] += 1
            if op["response_tokens"] is not None:
                self._add("response_tokens", op["response_tokens"])
            if start_ns >= fields.get("last_call_ns", -1):
                fields["last_call_ns"], fields["prompt_tokens"] = start_ns, op["prompt_tokens"]
                fields["answer"] = None if answer is None else answer[:MAX_PREVIEW_CHARS]
        elif kind == "tool":
            fields["tool_calls"] += 1
            if status == "error":
                fields["tool_errors"] += 1
        version = op["policy_version"]
        if version is not None and kind != "aux_llm":
            self._least("policy_version_min", version)
            fields["policy_version_max"] = max(version, fields.get("policy_version_max", version))

    def told(self, time_ns: int | None, *, counts: bool = True) -> None:
        """A transition or a note."""
        if counts:
            self._add("records", 1)
        if time_ns is not None:
            self.touch(time_ns)

    def flag(self, name: str) -> None:
        """A check found a problem."""
        flags = self.fields.setdefault("flags", [])
        if name not in flags:
            flags.append(name)

    def begin_task(self, text: str, time_ns: int) -> None:
        """The first message of the user, as far as is known."""
        if time_ns < self.fields.get("task_ns", time_ns + 1):
            self.fields["task"], self.fields["task_ns"] = text[:MAX_PREVIEW_CHARS], time_ns

    def drop(self) -> None:
        """It was begun and then not kept."""
        self.fields["dropped"] = True

    def touch(self, time_ns: int) -> None:
        """Something happened at this time."""
        self.fields["last_ns"] = max(time_ns, self.fields.get("last_ns", 0))

    def _add(self, name: str, number: float) -> None:
        self.fields[name] = self.fields.get(name, 0) + number

    def _least(self, name: str, number: int) -> None:
        self.fields[name] = min(number, self.fields.get(name, number))
