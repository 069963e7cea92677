"""Which conversation a prompt belongs to, and which rows its messages are.

In the order in which it is decided: a prompt that begins with all of an open conversation goes on with it; one that is
only the beginning of a conversation is a branch of it (another sample, a retry); one that has parts of it in their
order has rewritten it; any other begins a conversation of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.messages.given import GivenMessage, GivenPrompt
from rolltrace.messages.open_context import OpenContext, excerpt
from rolltrace.messages.rewrite import RewritePlan, find_known, plan_rewrite
from rolltrace.messages.tool_results import NO_ROW, PendingResults
from rolltrace.messages.transcript_rows import PRINT_BYTES, Moment, RowBook

if TYPE_CHECKING:
    from rolltrace.messages.transcript import EndedOp


MAX_SUMMARY_MESSAGES = 3
"""A prompt with more that is new is no summary of another conversation."""


class _Placing:
    """One prompt on its way into the transcript."""

    def __init__(
        self, prompt: GivenPrompt, op: EndedOp, contexts: list[OpenContext], pending: PendingResults, book: RowBook,
        moment: Moment,
    ) -> None:  # fmt: skip
        self._prompt = prompt
        self._op = op
        self._contexts = contexts
        self._pending = pending
        self._book = book
        self._moment = moment
        self._prints = prompt.prints()
        self._total = len(self._prints) // PRINT_BYTES

    def place(self) -> OpenContext:
        if not self._contexts:
            return self._go_on(OpenContext.begin([], self._book), 0)
        before, common = self._longest()
        if before is not None and common == len(before):
            self._contexts.remove(before)
            return self._go_on(before, common)
        if before is not None and common == self._total:
            return self._go_on(before.branch(common, self._book), common)
        given = self._all_given()
        rewritten = self._find_rewritten(before, common, given)
        if rewritten is not None:
            old, plan, common = rewritten
            self._contexts.remove(old)
            return self._rewrite(old, common, given, plan)
        context = before.branch(common, self._book) if before is not None else OpenContext.begin([], self._book)
        return self._go_on(context, common, reuse=True)

    def _longest(self) -> tuple[OpenContext | None, int]:
        best, most = None, (0, False)
        for context in self._contexts:
            common = context.common(self._prints)
            if common and (common, common == len(context)) >= most:
                best, most = context, (common, common == len(context))
        return best, most[0]

    def _all_given(self) -> list[GivenMessage]:
        """All messages of the prompt; those that need not be read know their rows."""
        base, book = self._prompt.base, self._book
        known = () if base is None else base.seqs[: self._prompt.known]
        hidden = set() if base is None else set(base.state.stripped)
        before = [
            GivenMessage(book.print_at(seq), book.role_at(seq), book.thinks(seq) and seq not in hidden, seq)
            for seq in known
        ]
        return [*before, *self._prompt.messages]

    def _find_rewritten(
        self, before: OpenContext | None, common: int, given: list[GivenMessage]
    ) -> tuple[OpenContext, RewritePlan, int] | None:
        """The conversation whose history the prompt has rewritten; None if it is of another one."""
        book = self._book
        if before is None or all(book.role_at(seq) == "system" for seq in before.seqs[:common]):
            before = self._most_shared(given) or before
            common = 0 if before is None else before.common(self._prints)
        if before is None:
            return self._find_quoted(given)
        plan = plan_rewrite(before.seqs[common:], given[common:], book)
        head_talks = any(book.role_at(seq) != "system" for seq in before.seqs[:common])
        if plan.has_anchor:
            is_rewrite = plan.keeps_turns or head_talks
        elif plan.rows[0] is not None or self._op.start_ns < before.state.end_ns:  # a branch; a call beside it
            return None
        else:
            is_rewrite = head_talks
        return (before, plan, common) if is_rewrite else self._find_quoted(given)

    def _most_shared(self, given: list[GivenMessage]) -> OpenContext | None:
        """The conversation that has the most of these messages."""
        digests = [each.digest for each in given if each.role not in ("system", "developer")]
        best, most = None, 0
        for context in self._contexts:
            known = set(array("Q", bytes(context.prints)))
            shared = sum(digest in known for digest in digests)
            if shared and shared >= most:
                best, most = context, shared
        return best

    def _find_quoted(self, given: list[GivenMessage]) -> tuple[OpenContext, RewritePlan, int] | None:
        """The conversation of the same system prompt whose task or last reply is quoted: a summary took its place."""
        talk = [each for each in given if each.role not in ("system", "developer") and each.seq is None]
        if len(talk) > MAX_SUMMARY_MESSAGES or any(each.role in ("tool", "function") for each in talk):
            return None
        texts = [each.message.text for each in talk if not self._book.find(each.digest)]
        first = given[0].digest if given and given[0].role in ("system", "developer") else None
        for context in reversed(self._contexts):
            opening = context.seqs[0]
            system = self._book.print_at(opening) if self._book.role_at(opening) == "system" else None
            is_over = context.state.end_ns <= self._op.start_ns and system == first
            is_same_caller = context.state.parent_id == (self._op.parent_id or 0)
            quotes = [quote for quote in context.state.excerpts if quote]
            if is_over and is_same_caller and any(quote in text for quote in quotes for text in texts):
                common = context.common(self._prints)
                return context, plan_rewrite(context.seqs[common:], given[common:], self._book), common
        return None

    def _go_on(self, context: OpenContext, common: int, *, reuse: bool = False) -> OpenContext:
        """Add what is new to a conversation of which the prompt has all; `reuse` rows of other conversations."""
        known, messages = self._prompt.known, self._prompt.messages
        matched = messages[: max(0, common - known)]
        stripped = self._strip(context, zip(context.seqs[known:common], matched)) if matched else []
        stripped += self._add_all(context, messages[len(matched) :], reuse=reuse)
        if stripped:
            self._book.add_rewrite(self._detail(context, reasoning_stripped=stripped), self._moment)
        return context

    def _strip(self, context: OpenContext, pairs: Iterable[tuple[int, GivenMessage]]) -> list[int]:
        """Note the rows whose reasoning a prompt leaves out, and return those that had it before."""
        hidden = set(context.state.stripped)
        thinking = [(seq, given.thinks) for seq, given in pairs if self._book.thinks(seq)]
        stripped = [seq for seq, is_shown in thinking if not is_shown and seq not in hidden]
        shown = {seq for seq, is_shown in thinking if is_shown and seq in hidden}
        if shown:
            context.state.stripped = [seq for seq in context.state.stripped if seq not in shown]
        context.state.stripped += stripped
        return stripped

    def _rewrite(self, old: OpenContext, common: int, given: list[GivenMessage], plan: RewritePlan) -> OpenContext:
        book, moment = self._book, self._moment
        context = old.branch(common, book)
        context.state.calls = old.state.calls
        stripped = self._strip(context, zip(context.seqs, given))
        given = given[common:]
        inside = [at for at, row in enumerate(plan.rows) if row is None and at not in plan.changed]
        numbers = {at: number for number, at in enumerate(inside)}
        pairs = self._pair([given[at] for at in inside], old)
        changed, added, kept = [], [], []
        for at, each in enumerate(given):
            row = plan.rows[at]
            if row is not None:
                kept.append((row, each))
            elif at in plan.changed:
                row = book.add_variant(each.message, moment, plan.changed[at], digest=each.digest)
                changed.append([plan.changed[at], row])
            else:
                row = self._add(context, each, pairs.get(numbers[at]))
                if at < plan.tail or (plan.dropped and each.role not in ("tool", "function")):
                    added.append(row)
            context.append(row, book)
        stripped += self._strip(context, kept)
        detail = self._detail(old, dropped=plan.dropped, changed=changed, added=added, reasoning_stripped=stripped)
        if any(name != "tokens" for name in detail):
            book.add_rewrite(detail, moment)
        return context

    def _detail(self, before: OpenContext, **lists: list[Any]) -> dict[str, Any]:
        detail: dict[str, Any] = {name: values for name, values in lists.items() if values}
        if before.state.tokens is not None and self._op.prompt_tokens is not None:
            detail["tokens"] = {"before": before.state.tokens, "after": self._op.prompt_tokens}
        return detail

    def _add_all(self, context: OpenContext, given: Sequence[GivenMessage], *, reuse: bool) -> list[int]:
        """Add messages that follow what a conversation has. Returns known rows that are without their reasoning."""
        rows: list[int | None] = [each.seq for each in given]
        stripped: list[int] = []
        if len(self._book) and (reuse or any(each.role == "assistant" for each in given)):
            used = set(context.seqs)
            for at, each in enumerate(given):
                if rows[at] is None and (reuse or each.role == "assistant"):
                    rows[at] = find_known(each, self._book, used)
            stripped = self._strip(context, [(row, each) for row, each in zip(rows, given) if row is not None])
        fresh = [at for at, row in enumerate(rows) if row is None]
        pairs = self._pair([given[at] for at in fresh], context)
        for number, at in enumerate(fresh):
            rows[at] = self._add(context, given[at], pairs.get(number))
        for row in rows:
            assert row is not None
            context.append(row, self._book)
        return stripped

    def _pair(self, given: list[GivenMessage], context: OpenContext) -> dict[int, Any]:
        last = context.seqs[-1] if len(context) else NO_ROW
        return self._pending.pair(given, context.state.calls, last)

    def _add(self, context: OpenContext, given: GivenMessage, result: Any) -> int:
        """Add the row of a new message. A result has one already, and another only if the prompt shows it otherwise."""
        book, message = self._book, given.message
        if message.tool_name is None and message.call_id is not None:
            message.tool_name = next((call.name for call in context.state.calls if call.id == message.call_id), None)
        moment = self._moment if result is None else Moment(self._moment.time_ns, self._moment.turn, result.op_id)
        if result is not None and result.seq == NO_ROW:
            message.author = "environment"
        elif result is not None:
            message.author = "tool"
            message.tool_name = message.tool_name or result.name
            if result.digest == given.digest:
                seq: int = result.seq
                if result.call_id is None and message.call_id is not None:
                    book.fill_in(seq, moment, message)
                return seq
            return book.add_variant(message, moment, result.seq, digest=given.digest, is_first_showing=True)
        elif message.role == "assistant":
            message.author = "policy" if moment.turn else "environment"
        seq = book.add(message, moment, digest=given.digest)
        if message.role == "user" and not context.state.excerpts:
            context.state.excerpts = [excerpt(message.text)]
        return seq


def place_prompt(
    prompt: GivenPrompt,
    op: EndedOp,
    contexts: list[OpenContext],
    pending: PendingResults,
    book: RowBook,
    moment: Moment,
) -> OpenContext:
    """Find or add the rows of a prompt: the conversation of exactly its messages, which is not among `contexts`."""
    return _Placing(prompt, op, contexts, pending, book, moment).place()
