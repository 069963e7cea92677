"""Which check sets which flag, and the set of them that looks at each row as it is made.

A new check is a function in one of these files, a line in one of these tables, and its flag in `rolltrace/flags.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rolltrace._guard import caught
from rolltrace.drain.checks.check import Finding, OpFacts, Past, TrajectoryPast
from rolltrace.drain.checks.image_missing import image_missing, may_want_image
from rolltrace.drain.checks.number_as_text import number_as_text
from rolltrace.drain.checks.repetition import repeats, repetition
from rolltrace.drain.checks.responses import (
    LENGTH_REASONS,
    cut_by_length,
    empty_response,
    op_interrupted,
    tool_error,
    trajectory_interrupted,
    unread_reply,
)
from rolltrace.drain.checks.token_columns import MIN_LOGPROBS, length_mismatch, no_text, unread_tokens, zero_logprobs
from rolltrace.drain.checks.turns import VERSION_NAMES, add_turn, mixed_policy, prefix_break
from rolltrace.flags import ALL, CHECK_FAILED, is_on
from rolltrace.record import OpEnd

if TYPE_CHECKING:
    from rolltrace.drain.quick import CallTokens

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
OF_OP_AND_META: dict[str, Callable[[OpFacts, Mapping[str, Any]], CheckResult]] = {"no_text": no_text}
"""Checks that ask what the writer was set up to do."""

OF_TRANSITION: dict[str, Callable[[Any, Mapping[str, Any]], CheckResult]] = {"number_as_text": number_as_text}
"""Checks of a transition: its trace, and what else was given."""

OF_TRAJECTORY: dict[str, Callable[[Mapping[str, Any]], CheckResult]] = {
    "interrupted": trajectory_interrupted,
}
"""Checks of the row of a trajectory."""


_TELLING = frozenset({"isError", "is_error", *VERSION_NAMES})
"""Names in the outputs of an op without tokens that `tool_error` and `mixed_policy` look for."""
_USUAL = frozenset({*OF_OP, *OF_OP_AND_PAST, *OF_OP_AND_META})


class Checks:
    """The checks that are switched on for one writer. An error in one of them costs that one look."""

    def __init__(self, selection: str, past: Past, meta: Mapping[str, Any] | None = None) -> None:
        self._past = past
        self._meta = meta or {}
        self._of_ops = [_chosen(checks, selection) for checks in (OF_OP, OF_OP_AND_META, OF_OP_AND_PAST)]
        self._are_usual = all(name in _USUAL for checks in self._of_ops for name, _ in checks)
        self._compares_turns = is_on(selection, "prefix_break")
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
        of_op, of_op_and_meta, of_op_and_past = self._of_ops
        findings = _run(of_op, op) + _run(of_op_and_meta, op, self._meta)
        if status == "interrupted":
            return findings  # its trajectory will never end, so nothing is to be remembered of it
        trajectory_id = fields["trajectory_id"] or ""
        past = self._past.of(trajectory_id)
        findings += _run(of_op_and_past, op, past)
        self._past.keep(trajectory_id, past)
        return findings

    def are_silent(self, op: OpEnd, trajectory_id: str, tokens: CallTokens | None, outputs: Any, payload: str) -> bool:
        """Whether it is plain that no check has anything to say of an op, but for what `of_quick_call` finds.

        Args:
            op, trajectory_id, outputs: The op.
            tokens: Those of a model call; None for an op without tokens.
            payload: Its inputs and outputs as JSON: an image in them has a name that says so.
        """
        if not self._are_usual or op.status != "ok" or may_want_image(payload):
            return False
        if self._past.waits_for_image(trajectory_id):
            return False
        if tokens is None:
            return op.kind != "llm" and (type(outputs) is not dict or _TELLING.isdisjoint(outputs))
        logprobs, mask, response, reason = tokens.logprobs, tokens.mask, tokens.response, tokens.finish_reason
        return (
            response > 0
            and (logprobs is None or len(logprobs) == response)
            and (mask is None or len(mask) == response)
            and not (logprobs and response >= MIN_LOGPROBS and logprobs[0] == 0 == logprobs[-1])
            and not (reason is not None and reason.lower() in LENGTH_REASONS)
            and not self._meta.get("token2text")
            and not repeats(memoryview(tokens.ids).cast("B")[4 * tokens.prompt :], mask)
        )

    def of_quick_call(self, op: OpEnd, trajectory_id: str, tokens: CallTokens) -> Finding | None:
        """What such a call says against the calls before it."""
        if not self._compares_turns:
            return None
        past = self._past.of(trajectory_id)
        ids, times = memoryview(tokens.ids).cast("B"), (op.start_ns, op.end_ns)
        finding = add_turn(past, op.name, op.op_id, times, ids, tokens.prompt, tokens.response)
        self._past.keep(trajectory_id, past)
        return finding

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


def _run(checks: list[_Check], *facts: Any) -> list[Finding]:
    findings: list[Finding] = []
    for name, check in checks:
        try:
            result: CheckResult = check(*facts)
            if result is not None:
                findings += [result] if isinstance(result, Finding) else list(result)
        except Exception as error:
            caught(f"check {name}")
            findings.append(Finding(CHECK_FAILED.name, {"check": name, "error": f"{type(error).__name__}: {error}"}))
    return findings
