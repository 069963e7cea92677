"""What a check is, and the set of them that looks at each row as it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """A problem that a check found."""

    flag: str
    detail: Mapping[str, Any] | None = None


class OpFacts(NamedTuple):
    """An op as a check sees it."""

    fields: Mapping[str, Any]
    """Its row of `spans`; token columns as Arrow arrays."""
    inputs: Any
    outputs: Any


class Past:
    """What checks remember of trajectories that are not over yet. Carried from segment to segment, so keep it small."""

    @classmethod
    def load(cls, saved: bytes) -> Past:
        return cls()

    def dump(self) -> bytes:
        return b""

    def copy(self) -> Past:
        return Past.load(self.dump())


class Checks:
    """The checks that are switched on for one writer."""

    @classmethod
    def of(cls, meta: Mapping[str, Any], past: Past) -> Checks:
        return cls()

    def of_op(self, op: OpFacts) -> Iterator[Finding]:
        if op.fields.get("kind") == "tool" and op.fields.get("status") == "error":
            yield Finding("tool_error")
        if op.fields.get("status") == "interrupted":
            yield Finding("interrupted")

    def of_transition(self, trace: Any, body: Mapping[str, Any]) -> Iterator[Finding]:
        return iter(())

    def of_trajectory(self, fields: Mapping[str, Any]) -> Iterator[Finding]:
        if fields["status"] == "interrupted":
            yield Finding("interrupted")
