"""Which check sets which flag, and the set of them that looks at each row as it is made.

A new check is a file here with one function, a line in one of these tables, and its flag in `rolltrace/flags.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rolltrace._guard import caught
from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.drain.checks.cut_by_length import cut_by_length
from rolltrace.drain.checks.empty_response import empty_response
from rolltrace.drain.checks.image_missing import image_missing
from rolltrace.drain.checks.interrupted import op_interrupted, trajectory_interrupted
from rolltrace.drain.checks.length_mismatch import length_mismatch
from rolltrace.drain.checks.mixed_policy import mixed_policy
from rolltrace.drain.checks.no_text import no_text
from rolltrace.drain.checks.number_as_text import number_as_text
from rolltrace.drain.checks.past import Known, Past
from rolltrace.drain.checks.prefix_break import prefix_break
from rolltrace.drain.checks.repetition import repetition
from rolltrace.drain.checks.tool_error import tool_error
from rolltrace.drain.checks.unread_reply import unread_reply
from rolltrace.drain.checks.zero_logprobs import zero_logprobs
from rolltrace.flags import ALL, CHECK_FAILED, is_on

Found = Finding | Iterable[Finding] | None
"""What a check gives: nothing, a finding, or several."""

OF_OP: dict[str, Callable[[OpFacts], Found]] = {
    "length_mismatch": length_mismatch,
    "zero_logprobs": zero_logprobs,
    "empty_response": empty_response,
    "unread_reply": unread_reply,
    "cut_by_length": cut_by_length,
    "repetition": repetition,
    "tool_error": tool_error,
    "interrupted": op_interrupted,
}
"""Checks that need nothing but the op."""

OF_OP_AND_PAST: dict[str, Callable[[OpFacts, Known], Found]] = {
    "prefix_break": prefix_break,
    "mixed_policy": mixed_policy,
    "image_missing": image_missing,
}
"""Checks that remember something of the ops before."""

OF_MODEL_CALLS = frozenset({"empty_response", "cut_by_length", "repetition", "prefix_break"})
"""Checks that have nothing to say of other ops, and so are not asked."""

OF_NUMBERS = frozenset({"length_mismatch", "zero_logprobs"})
"""Checks that have nothing to say of an op without logprobs and mask."""

_Kind = tuple[bool, bool]
"""Of an op: whether it is a model call, and whether it has logprobs or a mask."""

OF_OP_AND_META: dict[str, Callable[[OpFacts, Mapping[str, Any]], Found]] = {"no_text": no_text}
"""Checks that ask what the writer was set up to do."""

OF_TRANSITION: dict[str, Callable[[Any, Mapping[str, Any]], Found]] = {"number_as_text": number_as_text}
"""Checks of a transition: its trace, and what else was given."""

OF_TRAJECTORY: dict[str, Callable[[Mapping[str, Any]], Found]] = {
    "interrupted": trajectory_interrupted,
}
"""Checks of the row of a trajectory."""


class Checks:
    """The checks that are switched on for one writer. A fault in one of them costs that one look."""

    def __init__(self, selection: str, past: Past, meta: Mapping[str, Any] | None = None) -> None:
        self._past = past
        self._meta = meta or {}
        self._of_op = _by_kind(_chosen(OF_OP, selection))
        self._of_op_and_meta = _chosen(OF_OP_AND_META, selection)
        self._of_op_and_past = _by_kind(_chosen(OF_OP_AND_PAST, selection))
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
        kind = op.is_model_call, "logprobs" in fields or "response_mask" in fields
        findings = _run(self._of_op[kind], op)
        findings += _run(self._of_op_and_meta, op, self._meta)
        of_past = self._of_op_and_past[kind]
        if status == "interrupted" or not of_past:
            return findings  # a reader of live journals asks again and again about what has no end: it is forgotten
        trajectory_id = fields["trajectory_id"] or ""
        known = self._past.of(trajectory_id)
        findings += _run(of_past, op, known)
        self._past.keep(trajectory_id, known)
        return findings

    def of_lost_text(self, why: Any) -> Iterator[Finding]:
        """An op's own process could not decode its tokens, and says so."""
        if any(name == "no_text" for name, _ in self._of_op_and_meta):
            yield Finding("no_text", {"reason": why})

    def of_transition(self, trace: Any, body: Mapping[str, Any]) -> Iterable[Finding]:
        return _run(self._of_transition, trace, body)

    def of_trajectory(self, fields: Mapping[str, Any]) -> Iterable[Finding]:
        if fields["status"] == "running":
            return ()
        findings = _run(self._of_trajectory, fields)
        if fields["status"] != "interrupted":
            self._past.forget(fields["trajectory_id"] or "")
        return findings


def _chosen(checks: Mapping[str, Any], selection: str) -> list[tuple[str, Any]]:
    return [(name, check) for name, check in checks.items() if is_on(selection, name)]


def _by_kind(checks: list[tuple[str, Any]]) -> dict[_Kind, list[tuple[str, Any]]]:
    """The checks that can find something in each kind of op."""
    return {
        (is_model_call, has_numbers): [
            (name, check)
            for name, check in checks
            if (is_model_call or name not in OF_MODEL_CALLS) and (has_numbers or name not in OF_NUMBERS)
        ]
        for is_model_call in (False, True)
        for has_numbers in (False, True)
    }


def _run(checks: list[tuple[str, Any]], *facts: Any) -> list[Finding]:
    findings: list[Finding] = []
    for name, check in checks:
        try:
            found: Found = check(*facts)
            if found is not None:
                findings += [found] if isinstance(found, Finding) else list(found)
        except Exception as fault:
            caught(f"check {name}")
            findings.append(Finding(CHECK_FAILED.name, {"check": name, "error": f"{type(fault).__name__}: {fault}"}))
    return findings
