"""Which check sets which flag, and the set of them that looks at each row as it is made.

A new check is a function in one of these files, a line in one of these tables, and its flag in `rolltrace/flags.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rolltrace._guard import caught
from rolltrace.drain.checks.check import Finding, OpFacts, Past, TrajectoryPast
from rolltrace.drain.checks.image_missing import image_missing
from rolltrace.drain.checks.number_as_text import number_as_text
from rolltrace.drain.checks.repetition import repetition
from rolltrace.drain.checks.responses import (
    cut_by_length,
    empty_response,
    op_interrupted,
    tool_error,
    trajectory_interrupted,
    unread_reply,
)
from rolltrace.drain.checks.token_columns import length_mismatch, no_text, unread_tokens, zero_logprobs
from rolltrace.drain.checks.turns import mixed_policy, prefix_break
from rolltrace.flags import ALL, CHECK_FAILED, is_on

CheckResult = Finding | Iterable[Finding] | None
"""What a check gives: nothing, a finding, or several."""

OF_OP: dict[str, Callable[[OpFacts], CheckResult]] = {
    "length_mismatch": length_mismatch,
    "zero_logprobs": zero_logprobs,
    "empty_response": empty_response,
    "unread_reply": unread_reply,
    "unread_tokens": unread_tokens,
    "cut_by_length": cut_by_length,
    "repetition": repetition,
    "tool_error": tool_error,
    "interrupted": op_interrupted,
}
"""Checks that need nothing but the op."""

OF_OP_AND_PAST: dict[str, Callable[[OpFacts, TrajectoryPast], CheckResult]] = {
    "prefix_break": prefix_break,
    "mixed_policy": mixed_policy,
    "image_missing": image_missing,
}
"""Checks that remember something of the ops before."""

_Check = tuple[str, Any]
_Kind = tuple[bool, bool, bool, bool]
"""Of an op: whether it is a model call, has logprobs or a mask, is of a tool, was interrupted."""
ONLY_FOR: tuple[frozenset[str], ...] = (
    frozenset({"empty_response", "unread_reply", "unread_tokens", "cut_by_length", "repetition", "prefix_break"}),
    frozenset({"length_mismatch", "zero_logprobs"}),
    frozenset({"tool_error"}),
    frozenset({"interrupted"}),
)
"""For each of these, the checks that have nothing to say of other ops, and so are not asked about them."""


class _Asked(NamedTuple):
    of_op: list[_Check]
    of_op_and_meta: list[_Check]
    of_op_and_past: list[_Check]


OF_OP_AND_META: dict[str, Callable[[OpFacts, Mapping[str, Any]], CheckResult]] = {"no_text": no_text}
"""Checks that ask what the writer was set up to do."""

OF_TRANSITION: dict[str, Callable[[Any, Mapping[str, Any]], CheckResult]] = {"number_as_text": number_as_text}
"""Checks of a transition: its trace, and what else was given."""

OF_TRAJECTORY: dict[str, Callable[[Mapping[str, Any]], CheckResult]] = {
    "interrupted": trajectory_interrupted,
}
"""Checks of the row of a trajectory."""


class Checks:
    """The checks that are switched on for one writer. A fault in one of them costs that one look."""

    def __init__(self, selection: str, past: Past, meta: Mapping[str, Any] | None = None) -> None:
        self._past = past
        self._meta = meta or {}
        self._of_ops = [_chosen(checks, selection) for checks in (OF_OP, OF_OP_AND_META, OF_OP_AND_PAST)]
        self._asked: dict[_Kind, _Asked] = {}
        """Those that may have something to say, for each kind of op."""
        self._of_transition = _chosen(OF_TRANSITION, selection)
        self._of_trajectory = _chosen(OF_TRAJECTORY, selection)

    @classmethod
    def of(cls, meta: Mapping[str, Any], past: Past) -> Checks:
        """Those that the writer of a journal asked for."""
        return cls(str(meta.get("checks", ALL)), past, meta)

    def of_op(self, op: OpFacts) -> Iterable[Finding]:
        fields = op.fields
        status = fields["status"]
        if status == "running":
            return ()
        has_numbers = fields.get("logprobs") is not None or fields.get("response_mask") is not None
        kind = op.is_model_call, has_numbers, fields["kind"] == "tool", status == "interrupted"
        asked = self._asked.get(kind)
        if asked is None:
            asked = self._asked[kind] = _Asked(*(_of_kind(checks, kind) for checks in self._of_ops))
        findings = _run(asked.of_op, op) + _run(asked.of_op_and_meta, op, self._meta)
        if status == "interrupted" or not asked.of_op_and_past:
            return findings  # a reader of live journals asks again and again about what has no end: it is forgotten
        trajectory_id = fields["trajectory_id"] or ""
        past = self._past.of(trajectory_id)
        findings += _run(asked.of_op_and_past, op, past)
        self._past.keep(trajectory_id, past)
        return findings

    def of_lost_text(self, why: Any) -> Iterator[Finding]:
        """An op's own process could not decode its tokens, and says so."""
        if any(name == "no_text" for checks in self._of_ops for name, _ in checks):
            yield Finding("no_text", {"reason": why})

    def of_transition(self, trace: Any, body: Mapping[str, Any]) -> Iterable[Finding]:
        return _run(self._of_transition, trace, body)

    def of_trajectory(self, fields: Mapping[str, Any]) -> Iterable[Finding]:
        if fields["status"] == "running":
            return ()
        findings = _run(self._of_trajectory, fields)
        self.end_trajectory(fields["trajectory_id"] or "", fields["status"])
        return findings

    def end_trajectory(self, trajectory_id: str, status: str) -> None:
        """Forget a trajectory that has ended."""
        if status not in ("running", "interrupted"):
            self._past.forget(trajectory_id)


def _chosen(checks: Mapping[str, Any], selection: str) -> list[_Check]:
    return [(name, check) for name, check in checks.items() if is_on(selection, name)]


def _of_kind(checks: list[_Check], kind: _Kind) -> list[_Check]:
    """The checks that can find something in such an op."""
    skipped = {name for names, has in zip(ONLY_FOR, kind) if not has for name in names}
    return [(name, check) for name, check in checks if name not in skipped]


def _run(checks: list[_Check], *facts: Any) -> list[Finding]:
    findings: list[Finding] = []
    for name, check in checks:
        try:
            result: CheckResult = check(*facts)
            if result is not None:
                findings += [result] if isinstance(result, Finding) else list(result)
        except Exception as fault:
            caught(f"check {name}")
            findings.append(Finding(CHECK_FAILED.name, {"check": name, "error": f"{type(fault).__name__}: {fault}"}))
    return findings
