"""prefix_break: a turn whose prompt does not extend the previous prompt and response.

The previous turn is one that had ended when this one began and that no other has extended yet. Several may be open:
parallel samples of one prompt, conversations of sub-agents side by side. Extending any of them is fine.
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_64

from rolltrace.drain.checks.check import Finding, OpFacts, raw
from rolltrace.drain.checks.past import Known, Turn

_MOST_TURNS = 16
_MOST_NAMES = 16


def prefix_break(op: OpFacts, known: Known) -> Finding | None:
    fields = op.fields
    prompt, response = fields.get("prompt_tokens"), op.response_ids_count
    if prompt is None or response is None or not op.is_model_call or fields["tokens"].null_count:
        return None
    turns = known.turns.get(fields["name"], [])
    before = [turn for turn in turns if turn.end_ns <= fields["start_ns"]]
    fitting = [turn for turn in before if turn.tokens <= prompt]
    hashes = _prefix_hashes(raw(fields["tokens"]), {prompt, prompt + response, *(turn.tokens for turn in fitting)})
    extended = [turn for turn in fitting if hashes[turn.tokens] == turn.hash]
    another_sample = any(turn.prompt_tokens == prompt and turn.prompt_hash == hashes[prompt] for turn in before)
    _remember(
        known,
        fields["name"],
        [turn for turn in turns if turn not in extended],
        Turn(fields["op_id"], fields["end_ns"], prompt, hashes[prompt], prompt + response, hashes[prompt + response]),
    )
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


def _remember(known: Known, name: str, turns: list[Turn], newest: Turn) -> None:
    known.turns[name] = [*turns, newest][-_MOST_TURNS:]
    if len(known.turns) > _MOST_NAMES:
        known.turns.pop(next(iter(known.turns)))
