"""What a prompt did to the history that came before it: what it kept, dropped, changed and added."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from rolltrace.messages.given import GivenMessage
from rolltrace.messages.transcript_rows import RowBook, plain_role

MAX_REPEATS = 8
"""Of a message that stands in a conversation many times, so many places are compared."""


class RewritePlan(NamedTuple):
    """What becomes of each message of a prompt, and of each row before it."""

    rows: list[int | None]
    """The row that a message is; None if it needs one."""
    changed: dict[int, int]
    """Place of a message -> the row that it is another form of."""
    dropped: list[int]
    tail: int
    """From here on all messages stand after everything that was known."""
    has_anchor: bool
    """Something of the history is still there, in its order."""
    keeps_turns: bool
    """... and some of it was said by the model or a tool."""


def plan_rewrite(old: Sequence[int], given: Sequence[GivenMessage], book: RowBook) -> RewritePlan:
    """Compare the rows of a conversation with the messages that a prompt has in their place."""
    anchors = align([book.print_at(seq) for seq in old], [each.digest for each in given])
    rows: list[int | None] = [each.seq for each in given]
    for at, place in anchors:
        rows[place] = old[at]
    used = {seq for seq in rows if seq is not None}
    changed: dict[int, int] = {}
    dropped: list[int] = []
    old_start = new_start = 0
    for old_end, new_end in [*anchors, (len(old), len(given))]:
        if old_start == old_end and new_start == new_end:
            old_start, new_start = old_end + 1, new_end + 1
            continue
        is_tail = old_end == len(old) and new_end == len(given)
        for place in range(new_start, new_end):
            if rows[place] is None and (not is_tail or given[place].role == "assistant"):
                rows[place] = find_known(given[place], book, used)
        gap_old, gap_new = list(old[old_start:old_end]), [at for at in range(new_start, new_end) if rows[at] is None]
        pairs = _pair_gap(gap_old, gap_new, given, book, is_tail=is_tail)
        changed.update(pairs)
        paired = set(pairs.values())
        dropped += [seq for seq in gap_old if seq not in paired and seq not in used]
        old_start, new_start = old_end + 1, new_end + 1
    kept = [book.role_at(old[at]) for at, _ in anchors]
    tail = anchors[-1][1] + 1 if anchors else 0
    return RewritePlan(rows, changed, dropped, tail, bool(anchors), any(role in ("assistant", "tool") for role in kept))


def find_known(given: GivenMessage, book: RowBook, used: set[int]) -> int | None:
    """The newest row that says the same and stands nowhere else in the prompt; notes that it does now."""
    seq = next((seq for seq in reversed(book.find(given.digest)) if seq not in used), None)
    if seq is not None:
        used.add(seq)
    return seq


def _pair_gap(
    gap_old: list[int], gap_new: list[int], given: Sequence[GivenMessage], book: RowBook, *, is_tail: bool
) -> dict[int, int]:
    """Messages that stand in the place of rows of the same role: other forms of them."""
    old_roles = [book.role_at(seq) for seq in gap_old]
    new_roles = [plain_role(given[at].role) for at in gap_new]
    if not old_roles or not new_roles:
        return {}
    if old_roles == new_roles or (is_tail and old_roles == new_roles[: len(old_roles)]):
        return dict(zip(gap_new, gap_old))
    pairs = {}
    if old_roles[0] == new_roles[0] == "system":
        pairs[gap_new[0]] = gap_old[0]
    for role in () if is_tail else ("tool", "assistant"):
        of_old = [seq for seq, each in zip(gap_old, old_roles) if each == role]
        of_new = [at for at, each in zip(gap_new, new_roles) if each == role]
        if len(of_old) == len(of_new):
            pairs.update(zip(of_new, of_old))
    return pairs


def align(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """The longest common subsequence of two runs of fingerprints, as pairs of places."""
    where: dict[int, list[int]] = {}
    for at, digest in enumerate(old):
        where.setdefault(digest, []).append(at)
    tails = array("q")
    chains: list[tuple[Any, int, int]] = []
    for place, digest in enumerate(new):
        for at in reversed(where.get(digest, ())[-MAX_REPEATS:]):
            length = bisect_left(tails, at)
            chain = (chains[length - 1] if length else None, at, place)
            if length == len(tails):
                tails.append(at)
                chains.append(chain)
            else:
                tails[length] = at
                chains[length] = chain
    pairs: list[tuple[int, int]] = []
    link: Any = chains[-1] if chains else None
    while link is not None:
        pairs.append((link[1], link[2]))
        link = link[0]
    return pairs[::-1]
