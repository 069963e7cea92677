"""Which conversation a prompt belongs to, and which rows its messages are.

In the order in which it is decided: a prompt that begins with all of an open conversation goes on with it; one that is
only the beginning of a conversation is a branch of it (another sample, a retry); one that has parts of it in their
order has rewritten it: some of the history is kept, dropped, changed and added; any other begins a conversation of its
own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.messages.given import GivenMessage, GivenPrompt, OpenContext, excerpt
from rolltrace.messages.tool_results import NO_ROW, PendingResult, PendingResults
from rolltrace.messages.transcript_rows import PRINT_BYTES, Moment, RowBook, plain_role

if TYPE_CHECKING:
    from rolltrace.messages.transcript import EndedOp

MAX_SUMMARY_MESSAGES = 3
"""A prompt with more that is new is no summary of another conversation."""
MAX_REPEATS = 8
"""Of a message that stands in a conversation many times, so many places are compared."""
_SYSTEM = ("system", "developer")
_TOOL = ("tool", "function")


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


_Rewritten = tuple[OpenContext, int, RewritePlan]
"""A conversation, with how many messages it and a prompt begin, and what becomes of the others."""


@dataclass
class Placing:
    """One prompt on its way into the transcript."""

    prompt: GivenPrompt
    op: EndedOp
    contexts: list[OpenContext]
    pending: PendingResults
    book: RowBook
    moment: Moment

    def place(self) -> OpenContext:
        """Find or add the rows: the conversation of exactly these messages, which is not among `contexts` then."""
        if not self.contexts:
            return self._go_on(OpenContext.begin([], self.book), 0)
        prints = self.prompt.prints()
        before, common = self._longest(prints)
        if before is not None and common == len(before):
            self.contexts.remove(before)
            return self._go_on(before, common)
        if before is not None and common == len(prints) // PRINT_BYTES:
            return self._go_on(before.branch(common, self.book), common)
        given = self._all_given()
        rewritten = self._find_rewritten(before, common, given, prints)
        if rewritten is not None:
            old, common, plan = rewritten
            self.contexts.remove(old)
            return self._rewrite(old, common, given, plan)
        context = before.branch(common, self.book) if before is not None else OpenContext.begin([], self.book)
        return self._go_on(context, common, reuse=True)

    def _longest(self, prints: bytes) -> tuple[OpenContext | None, int]:
        best, most = None, (0, False)
        for context in self.contexts:
            common = context.count_common(prints)
            if common and (common, common == len(context)) >= most:
                best, most = context, (common, common == len(context))
        return best, most[0]

    def _all_given(self) -> list[GivenMessage]:
        """All messages of the prompt; those that need not be read know their rows."""
        base, book = self.prompt.base, self.book
        known = () if base is None else base.seqs[: self.prompt.known]
        hidden = set() if base is None else set(base.state.stripped)
        before = [
            GivenMessage(book.print_at(seq), book.role_at(seq), book.thinks(seq) and seq not in hidden, seq)
            for seq in known
        ]
        return [*before, *self.prompt.messages]

    def _find_rewritten(
        self, before: OpenContext | None, common: int, given: list[GivenMessage], prints: bytes
    ) -> _Rewritten | None:
        """The conversation whose history the prompt has rewritten; None if the prompt is of another one."""
        book = self.book
        if before is None or all(book.role_at(seq) == "system" for seq in before.seqs[:common]):
            before = self._most_shared(given) or before
            common = 0 if before is None else before.count_common(prints)
        if before is None:
            return self._find_quoted(given, prints)
        plan = plan_rewrite(before.seqs[common:], given[common:], book)
        head_talks = any(book.role_at(seq) != "system" for seq in before.seqs[:common])
        if plan.has_anchor:
            is_rewrite = plan.keeps_turns or head_talks
        elif plan.rows[0] is not None or self.op.start_ns < before.state.end_ns:  # a branch; a call beside it
            return None
        else:
            is_rewrite = head_talks
        return (before, common, plan) if is_rewrite else self._find_quoted(given, prints)

    def _most_shared(self, given: list[GivenMessage]) -> OpenContext | None:
        """The conversation that has the most of these messages."""
        digests = [each.digest for each in given if each.role not in _SYSTEM]
        best, most = None, 0
        for context in self.contexts:
            known = set(array("Q", bytes(context.prints)))
            shared = sum(digest in known for digest in digests)
            if shared and shared >= most:
                best, most = context, shared
        return best

    def _find_quoted(self, given: list[GivenMessage], prints: bytes) -> _Rewritten | None:
        """The conversation of the same system prompt whose task or last reply is quoted: a summary took its place."""
        talk = [each for each in given if each.role not in _SYSTEM and each.seq is None]
        if len(talk) > MAX_SUMMARY_MESSAGES or any(each.role in _TOOL for each in talk):
            return None
        texts = [each.message.text for each in talk if not self.book.find(each.digest)]
        first = given[0].digest if given and given[0].role in _SYSTEM else None
        for context in reversed(self.contexts):
            opening = context.seqs[0]
            system = self.book.print_at(opening) if self.book.role_at(opening) == "system" else None
            is_over = context.state.end_ns <= self.op.start_ns and system == first
            is_same_caller = context.state.parent_id == (self.op.parent_id or 0)
            quotes = [quote for quote in context.state.excerpts if quote]
            if is_over and is_same_caller and any(quote in text for quote in quotes for text in texts):
                common = context.count_common(prints)
                return context, common, plan_rewrite(context.seqs[common:], given[common:], self.book)
        return None

    def _go_on(self, context: OpenContext, common: int, *, reuse: bool = False) -> OpenContext:
        """Add what is new to a conversation of which the prompt has all; `reuse` rows of other conversations."""
        known, messages = self.prompt.known, self.prompt.messages
        matched = messages[: max(0, common - known)]
        stripped = self._strip(context, zip(context.seqs[known:common], matched)) if matched else []
        stripped += self._add_all(context, messages[len(matched) :], reuse=reuse)
        if stripped:
            self.book.add_rewrite(self._detail(context, reasoning_stripped=stripped), self.moment)
        return context

    def _strip(self, context: OpenContext, pairs: Iterable[tuple[int, GivenMessage]]) -> list[int]:
        """Note the rows whose reasoning a prompt leaves out, and return those that had it before."""
        hidden = set(context.state.stripped)
        thinking = [(seq, given.thinks) for seq, given in pairs if self.book.thinks(seq)]
        stripped = [seq for seq, is_shown in thinking if not is_shown and seq not in hidden]
        shown = {seq for seq, is_shown in thinking if is_shown and seq in hidden}
        if shown:
            context.state.stripped = [seq for seq in context.state.stripped if seq not in shown]
        context.state.stripped += stripped
        return stripped

    def _rewrite(self, old: OpenContext, common: int, given: list[GivenMessage], plan: RewritePlan) -> OpenContext:
        book, moment = self.book, self.moment
        context = old.branch(common, book)
        context.state.calls = old.state.calls
        stripped = self._strip(context, zip(context.seqs, given))
        given = given[common:]
        fresh = [at for at, row in enumerate(plan.rows) if row is None and at not in plan.changed]
        pairs = self._pair(given, fresh, old)
        changed, added, kept = [], [], []
        for at, each in enumerate(given):
            row = plan.rows[at]
            if row is not None:
                kept.append((row, each))
            elif at in plan.changed:
                row = book.add_variant(each.message, moment, plan.changed[at], digest=each.digest)
                changed.append([plan.changed[at], row])
            else:
                row = self._add(context, each, pairs.get(at))
                if at < plan.tail or (plan.dropped and each.role not in _TOOL):
                    added.append(row)
            context.append(row, book)
        stripped += self._strip(context, kept)
        detail = self._detail(old, dropped=plan.dropped, changed=changed, added=added, reasoning_stripped=stripped)
        if any(name != "tokens" for name in detail):
            book.add_rewrite(detail, moment)
        return context

    def _detail(self, before: OpenContext, **lists: list[Any]) -> dict[str, Any]:
        detail: dict[str, Any] = {name: values for name, values in lists.items() if values}
        if before.state.tokens is not None and self.op.prompt_tokens is not None:
            detail["tokens"] = {"before": before.state.tokens, "after": self.op.prompt_tokens}
        return detail

    def _add_all(self, context: OpenContext, given: Sequence[GivenMessage], *, reuse: bool) -> list[int]:
        """Add messages that follow what a conversation has. Returns known rows that are without their reasoning."""
        rows: list[int | None] = [each.seq for each in given]
        stripped: list[int] = []
        if len(self.book) and (reuse or any(each.role == "assistant" for each in given)):
            used = set(context.seqs)
            for at, each in enumerate(given):
                if rows[at] is None and (reuse or each.role == "assistant"):
                    rows[at] = _find_known(each, self.book, used)
            stripped = self._strip(context, [(row, each) for row, each in zip(rows, given) if row is not None])
        pairs = self._pair(given, [at for at, row in enumerate(rows) if row is None], context)
        # All rows are made before the first is added: what a message adds to, is the conversation as it was.
        for row in [
            self._add(context, given[at], pairs.get(at)) if row is None else row for at, row in enumerate(rows)
        ]:
            context.append(row, self.book)
        return stripped

    def _pair(self, given: Sequence[GivenMessage], fresh: list[int], context: OpenContext) -> dict[int, PendingResult]:
        """Which of the fresh messages show which results, by their places."""
        last = context.seqs[-1] if len(context) else NO_ROW
        pairs = self.pending.pair([given[at] for at in fresh], context.state.calls, last)
        return {fresh[number]: result for number, result in pairs.items()}

    def _add(self, context: OpenContext, given: GivenMessage, result: PendingResult | None) -> int:
        """Add the row of a new message. A result has one already, and another only if the prompt shows it otherwise."""
        book, message = self.book, given.message
        if message.tool_name is None and message.call_id is not None:
            message.tool_name = next((call.name for call in context.state.calls if call.id == message.call_id), None)
        moment = self.moment if result is None else Moment(self.moment.time_ns, self.moment.turn, result.op_id)
        if result is not None and result.seq == NO_ROW:
            message.author = "environment"
        elif result is not None:
            message.author = "tool"
            message.tool_name = message.tool_name or result.name
            if result.digest == given.digest:
                if result.call_id is None and message.call_id is not None:
                    book.fill_in(result.seq, moment, message)
                return result.seq
            return book.add_variant(message, moment, result.seq, digest=given.digest, is_first_showing=True)
        elif message.role == "assistant":
            message.author = "policy" if moment.turn else "environment"
        seq = book.add(message, moment, digest=given.digest)
        if message.role == "user" and not context.state.excerpts:
            context.state.excerpts = [excerpt(message.text)]
        return seq


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
        if old_start < old_end or new_start < new_end:
            is_tail = old_end == len(old) and new_end == len(given)
            for place in range(new_start, new_end):
                if rows[place] is None and (not is_tail or given[place].role == "assistant"):
                    rows[place] = _find_known(given[place], book, used)
            gap = list(old[old_start:old_end])
            places = [at for at in range(new_start, new_end) if rows[at] is None]
            pairs = _pair_gap(gap, places, given, book, is_tail=is_tail)
            changed.update(pairs)
            standing = used | set(pairs.values())
            dropped += [seq for seq in gap if seq not in standing]
        old_start, new_start = old_end + 1, new_end + 1
    keeps_turns = any(book.role_at(old[at]) in ("assistant", "tool") for at, _ in anchors)
    return RewritePlan(rows, changed, dropped, anchors[-1][1] + 1 if anchors else 0, bool(anchors), keeps_turns)


def _find_known(given: GivenMessage, book: RowBook, used: set[int]) -> int | None:
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
