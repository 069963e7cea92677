"""`rollout_trace_group`: what happens to all rollouts of a sample together, as comparisons and group rewards do.

It is recorded as a trajectory is, with ops, notes and tags, and marked as a group: readers show it with the group, and
never count it as a rollout.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rolltrace.capture.trajectory import UNTRACED, TrajectoryHandle, rollout_trace_attr
from rolltrace.record import SampleIndex


class TraceGroup:
    """All rollouts of one sample in one step. What `with rollout_trace_group(...) as group` gives.

    While tracing is off, or inside `trace=False`, it is there all the same and does nothing.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: TrajectoryHandle) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        """The id of this record, 32 hexadecimal digits; empty when it is not traced."""
        return self._handle.id

    @property
    def traced(self) -> bool:
        """Whether anything is recorded."""
        return self._handle.traced

    def __repr__(self) -> str:
        return repr(self._handle).replace("TrajectoryHandle", "TraceGroup", 1)

    def tag(self, /, **tags: Any) -> None:
        """Add tags, or change them."""
        self._handle.tag(**tags)

    def note(self, text: str, /, **fields: Any) -> None:
        """Record a remark, with any further fields."""
        self._handle.note(text, **fields)


class _GroupEntry(rollout_trace_attr):
    _is_group = True


class rollout_trace_group:
    """What belongs to a whole group: `with rollout_trace_group(sample_index=7, step=1) as group:`.

    Usable with `with` and `async with`. Ops inside, also in tasks and threads started inside, belong to the group: a
    pairwise comparison, a group reward. They are no rollout: lists, counts, pass@k and exports leave them out, and
    `Store.group_records` and `rolltrace groups` show them. A rollout that begins inside is a rollout like any other.

    Args:
        sample_index: Which dataset sample.
        step: Training step.
        validate: A group of validation rollouts.
        name: What to call it.
        trace: False silences everything inside.
        **tags: Anything else worth keeping.
    """

    def __init__(
        self,
        sample_index: SampleIndex | None = None,
        step: int | None = None,
        *,
        validate: bool = False,
        name: str = "group",
        trace: bool = True,
        **tags: Any,
    ) -> None:
        self._entry = _GroupEntry(sample_index, step, name=name, validate=validate, trace=trace, **tags)

    def __enter__(self) -> TraceGroup:
        handle = self._entry.__enter__()
        return _UNTRACED if handle is UNTRACED else TraceGroup(handle)

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._entry.__exit__(kind, failure, tb)

    async def __aenter__(self) -> TraceGroup:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, failure, tb)


_UNTRACED = TraceGroup(UNTRACED)
