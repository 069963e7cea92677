"""What a turn says against the turns before it.

prefix_break: a turn whose prompt does not extend the previous prompt and response.

The previous turn is one that had ended when this one began and that no other has extended yet. Several may be open:
parallel samples of one prompt, conversations of sub-agents side by side. Extending any of them is fine.

mixed_policy: several policy versions produced the tokens of one trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xxhash import xxh3_64

from rolltrace.drain.checks.check import Finding, OpFacts, PastTurn, TrajectoryPast, raw

_MAX_TURNS = 16
_MAX_NAMES = 16


def prefix_break(op: OpFacts, past: TrajectoryPast) -> Finding | None:
    fields = op.fields
    prompt, response = fields.get("prompt_tokens"), op.response_ids_count
    if prompt is None or response is None or not op.is_model_call or fields["tokens"].null_count:
        return None
    times = fields["start_ns"], fields["end_ns"]
    return add_turn(past, fields["name"], fields["op_id"], times, raw(fields["tokens"]), prompt, response)


def add_turn(
    past: TrajectoryPast, name: str, op_id: int, times: tuple[int, int], ids: memoryview, prompt: int, response: int
) -> Finding | None:
    """Compare a turn, of which the tokens are given as bytes, with those before, and remember it."""
    turns = past.turns.get(name, ())
    before = [turn for turn in turns if turn.end_ns <= times[0]]
    fitting = [turn for turn in before if turn.tokens <= prompt]
    hashes = _prefix_hashes(ids, {prompt, prompt + response, *(turn.tokens for turn in fitting)})
    extended = [turn for turn in fitting if hashes[turn.tokens] == turn.hash]
    another_sample = any(turn.prompt_tokens == prompt and turn.prompt_hash == hashes[prompt] for turn in before)
    newest = PastTurn(op_id, times[1], prompt, hashes[prompt], prompt + response, hashes[prompt + response])
    past.turns[name] = [*(turn for turn in turns if turn not in extended), newest][-_MAX_TURNS:]
    if len(past.turns) > _MAX_NAMES:
        past.turns.pop(next(iter(past.turns)))
    if not before or extended or another_sample:
        return None
    last = max(before, key=lambda turn: turn.end_ns)
    return Finding(
        "prefix_break",
        {"previous_op_id": last.op_id, "previous_tokens": last.tokens, "prompt_tokens": prompt},
    )


def _prefix_hashes(ids: memoryview, lengths: Iterable[int]) -> dict[int, int]:
    """The hash of the first so many tokens, for each length; every byte is read once."""
    hashes: dict[int, int] = {}
    running, at = xxh3_64(), 0
    for length in sorted(lengths):
        running.update(ids[4 * at : 4 * length])
        hashes[length], at = running.intdigest(), length
    return hashes


VERSION_NAMES = ("param_version_start", "param_version_end")


def mixed_policy(op: OpFacts, past: TrajectoryPast) -> Finding | None:
    if op.fields["kind"] == "aux_llm":
        return None
    version = op.fields.get("policy_version")
    first, last = _span(op.outputs) or (version, version)
    if last is None or past.policies_told:
        return None
    before, past.policy_version = past.policy_version, last
    if first != last:
        before = first
    if before is None or before == last:
        return None
    past.policies_told = True  # once is enough: each later turn would only say the same
    return Finding("mixed_policy", {"policy_version": last, "previous": before})


def _span(outputs: Any) -> tuple[int, int] | None:
    """From which to which version one op went: verl's fully asynchronous rollouts go on with newer weights."""
    for place in (outputs, outputs.get("extra_fields")) if isinstance(outputs, dict) else ():
        if isinstance(place, dict):
            first, last = map(place.get, VERSION_NAMES)
            if type(first) is int and type(last) is int:
                return first, last
    return None
