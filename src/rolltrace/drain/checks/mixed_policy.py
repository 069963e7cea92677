"""mixed_policy: several policy versions produced the tokens of one trajectory."""

from __future__ import annotations

from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.drain.checks.past import Known

VERSION_NAMES = ("param_version_start", "param_version_end")


def mixed_policy(op: OpFacts, known: Known) -> Finding | None:
    if op.fields["kind"] == "aux_llm":
        return None
    version = op.fields.get("policy_version")
    first, last = _span(op.outputs) or (version, version)
    if last is None or known.policies_told:
        return None
    before, known.policy_version = known.policy_version, last
    if first != last:
        before = first
    if before is None or before == last:
        return None
    known.policies_told = True  # once is enough: each later turn would only say the same
    return Finding("mixed_policy", {"policy_version": last, "previous": before})


def _span(outputs: Any) -> tuple[int, int] | None:
    """From which to which version one op went: verl's fully asynchronous rollouts go on with newer weights."""
    for place in (outputs, outputs.get("extra_fields")) if isinstance(outputs, dict) else ():
        if isinstance(place, dict):
            first, last = map(place.get, VERSION_NAMES)
            if type(first) is int and type(last) is int:
                return first, last
    return None
