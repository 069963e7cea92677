"""The transcript of one trajectory: ended ops in, rows of the table `messages` out.

The transcript is what happened. Each reply of the model is a row as it was produced, each result of a tool a row as its
op returned it, and of a prompt only what is new becomes rows. A prompt that rewrites history takes nothing away: other
forms of messages become rows of kind `variant`, and what it dropped, changed and added one row of kind `rewrite`. Which
rows a call was given, in the order of its prompt, is its `saw`.

What is kept between ops is small (fingerprints and numbers of rows) and can be saved and restored at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rolltrace.messages.given import (
    MAX_CONTEXTS,
    ContextState,
    Decode,
    GivenPrompt,
    OpenContext,
    PromptReader,
    TextPrefix,
)
from rolltrace.messages.message import Message, fingerprint
from rolltrace.messages.model_calls import prompt_text, read_replies, read_system, read_tool_result
from rolltrace.messages.placing import Placing
from rolltrace.messages.template import read_added_text, read_prompt_text, read_response_text
from rolltrace.messages.tool_results import (
    NO_ROW,
    PendingResult,
    PendingResults,
    argument_hashes,
    find_call,
    shown_arguments,
)
from rolltrace.messages.transcript_rows import MessageRow, Moment, RowBook
from rolltrace.record import decode_value

MAX_INNER = 64
"""So many rows of ops inside another op are remembered until that ends."""
MAX_UNREAD = 4096
"""For so many model calls the transcript waits until somebody tells their replies."""


class EndedOp(msgspec.Struct, kw_only=True):
    """What the transcript needs of an op that ended."""

    op_id: int
    kind: str
    name: str = ""
    parent_id: int | None = None
    start_ns: int = 0
    end_ns: int = 0
    inputs: Any = None
    """Decoded, or `Raw` as the journal has it: then most of a long prompt is never decoded."""
    outputs: Any = None
    """The same."""
    error: str | None = None
    prompt_text: str | None = None
    """The text of its prompt tokens, if that is known."""
    response_text: str | None = None
    prompt_tokens: int | None = None
    response_tokens: int | None = None


class OpRows(NamedTuple):
    """What an op adds to a transcript."""

    rows: list[MessageRow]
    """New rows, numbered on from those before; and partial rows with the id of an earlier one that fill in what it
    could not say yet (which call a result answers)."""
    saw: str | None = None
    """Of a model call: the rows that it was given."""
    turn: int | None = None
    place: str | None = None
    """The argument in which its messages stand; `saw` says the same."""


class Inner(msgspec.Struct, array_like=True):
    """A row that an op inside another one made."""

    digest: int
    is_reply: bool
    turn: int = 0
    saw: str = ""


class OpText(msgspec.Struct, array_like=True):
    """The texts of an op that is no model call: all there is of a rollout whose model calls are not traced."""

    op_id: int
    start_ns: int
    end_ns: int
    prompt: str | None
    response: str


class UnreadCall(msgspec.Struct, array_like=True):
    """A model call whose reply is not known yet."""

    op_id: int
    turn: int
    start_ns: int
    end_ns: int


class TranscriptState(msgspec.Struct):
    """What is saved of a transcript."""

    prints: bytes = b""
    marks: bytes = b""
    contexts: list[ContextState] = []
    pending: list[PendingResult] = []
    turns: int = 0
    told_by: str = ""
    """`ops` or `steps`: where the replies come from."""
    unread: list[UnreadCall] = []
    """Model calls whose reply cannot be read: steps may tell it, or a text that comes later."""
    inner: dict[int, list[Inner]] = {}
    waiting: OpText | None = None
    is_finished: bool = False


_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(TranscriptState).decode
_NOTHING = OpRows([])


class Transcript:
    """Builds the transcript of one trajectory. Feed it every op when it ends, in that order."""

    def __init__(self, saved: bytes | None = None, *, decode: Decode = decode_value) -> None:
        """Args:
        saved: What `save` returned.
        decode: Opens encoded payloads; a drainer redacts and takes out images here.
        """
        state = TranscriptState() if saved is None else _decode_state(saved)
        self._state = state
        self._decode = decode
        self._book = RowBook(state.prints, state.marks)
        self._contexts = [OpenContext(each, self._book) for each in state.contexts]
        """The least recently used first."""
        self._pending = PendingResults(state.pending)
        self._reader = PromptReader(decode)

    def save(self) -> bytes:
        """The state, without any text but a few words."""
        state = self._state
        state.prints, state.marks = bytes(self._book.prints), bytes(self._book.marks)
        state.contexts = [context.state for context in self._contexts]
        state.pending = self._pending.waiting
        return _encode_state(state)

    @property
    def is_told_by_ops(self) -> bool:
        """Whether model calls tell what the policy says, so that environment steps need not."""
        return self._state.told_by == "ops"

    def op_ended(self, op: EndedOp) -> OpRows:
        """The rows that an op adds, and of a model call what it saw and which turn it is."""
        inside = self._state.inner.pop(op.op_id, [])
        if inside:
            self._note_inner(op.parent_id, inside)
        if op.kind == "llm":
            return self._model_call(op, inside)
        if op.kind == "tool":
            self._tool_call(op, inside)
        elif op.kind == "env":
            self._environment(op)
        elif op.kind != "aux_llm" and op.response_text is not None and self._state.waiting is None:
            self._state.waiting = OpText(op.op_id, op.start_ns, op.end_ns, op.prompt_text, op.response_text)
        return OpRows(self._book.take())

    def step_taken(self, prompt: Any, policy_response: Any, *, time_ns: int = 0) -> OpRows:
        """The rows of an environment step, where the ops tell no replies: what the policy saw, and what it answered."""
        if self._state.told_by == "ops":
            return _NOTHING
        replies = [[reply] for reply in read_replies(policy_response)]
        call = self._state.unread.pop(0) if self._state.unread and replies else None
        op_id, turn = (None, self._state.turns) if call is None else (call.op_id, call.turn)
        self._state.turns += call is None
        if replies:
            self._state.told_by, self._state.waiting = "steps", None
        step = EndedOp(op_id=op_id or 0, kind="llm", start_ns=time_ns, end_ns=time_ns, inputs=prompt)
        given = self._read_prompt(step, prompt if isinstance(prompt, str) else None)
        saw, _ = self._converse(step, given, replies, Moment(time_ns, turn), op_id)
        return OpRows(self._book.take(), saw, turn)

    def text_told(self, op_id: int, prompt: str | None, response: str) -> OpRows:
        """The rows of an op whose tokens were decoded after it had ended. Their turn says where they belong."""
        state = self._state
        call = next((each for each in state.unread if each.op_id == op_id), None)
        if call is not None and state.told_by != "steps":
            state.unread = [each for each in state.unread if each is not call]
            text = OpText(op_id, call.start_ns, call.end_ns, prompt, response)
            return OpRows(self._add_text(text, call.turn), turn=call.turn)
        if call is None and not state.told_by and state.waiting is None:
            state.waiting = OpText(op_id, 0, 0, prompt, response)
            return self.finish() if state.is_finished else _NOTHING
        return _NOTHING

    def finish(self, time_ns: int = 0) -> OpRows:
        """The trajectory has ended: the rows that had to wait for that."""
        self._state.is_finished = True
        text, self._state.waiting = self._state.waiting, None
        return _NOTHING if text is None or self._state.told_by else OpRows(self._add_text(text, 0))

    def _add_text(self, text: OpText, turn: int) -> list[MessageRow]:
        """The rows of an op that is known by its texts."""
        given = None if text.prompt is None else self._read_text(text.prompt)
        chain = read_response_text(text.response, "" if given is None else given.prefill)
        self._state.told_by = "ops"
        op = EndedOp(op_id=text.op_id, kind="llm", start_ns=text.start_ns, end_ns=text.end_ns)
        self._converse(op, given, [chain], Moment(text.start_ns, turn), text.op_id)
        return self._book.take()

    def _model_call(self, op: EndedOp, inside: list[Inner]) -> OpRows:
        outputs = self._open(op.outputs)
        chains = [[reply] for reply in read_replies(outputs)]
        answered = [each for each in inside if each.is_reply]
        if answered and self._repeats(answered, chains):
            last = answered[-1]
            return OpRows(self._book.take(), last.saw, last.turn)
        turn = self._state.turns
        self._state.turns += 1
        given = self._read_prompt(op, None, outputs)
        if not chains and op.response_text is not None:
            chains = [read_response_text(op.response_text, "" if given is None else given.prefill)]
        if chains:
            self._state.told_by = "ops"
        else:
            unread = UnreadCall(op.op_id, turn, op.start_ns, op.end_ns)
            self._state.unread = [*self._state.unread[-MAX_UNREAD:], unread]
        saw, contexts = self._converse(op, given, chains, Moment(op.start_ns, turn), op.op_id)
        response_id = outputs.get("id") if isinstance(outputs, dict) else None
        for context in contexts:
            context.state.response_id = response_id if isinstance(response_id, str) else None
        replies = [Inner(fingerprint(chain[-1]), True, turn, saw or "") for chain in chains if chain]
        self._note_inner(op.parent_id, replies)
        raw = None if given is None else given.prompt.raw
        return OpRows(self._book.take(), saw, turn, None if raw is None else raw.place)

    def _repeats(self, answered: list[Inner], chains: list[list[Message]]) -> bool:
        """Whether an op around model calls only hands on what the last of them answered."""
        known = {each.digest for each in answered}
        return all(fingerprint(message) in known for chain in chains for message in chain)

    def _converse(
        self, op: EndedOp, given: _Given | None, chains: list[list[Message]], moment: Moment, op_id: int | None
    ) -> tuple[str | None, list[OpenContext]]:
        """Add what a call was given and what it answered. Returns the rows that it was given, and the conversations
        that may go on, one for each reply."""
        if given is None and not chains:
            return None, []
        prompt = GivenPrompt([]) if given is None else given.prompt
        if given is None and self._contexts:  # only a reply is known: the conversation goes on
            prompt = GivenPrompt([], self._contexts[-1], len(self._contexts[-1]))
        context = Placing(prompt, op, self._contexts, self._pending, self._book, moment).place()
        saw = context.saw()
        if prompt.raw is not None:
            context.raw = prompt.raw
        context.state.seen = len(context)
        contexts = [context, *(context.branch(len(context), self._book) for _ in chains[1:])]
        tokens = context.state.tokens
        if op.prompt_tokens is not None:
            tokens = op.prompt_tokens + (op.response_tokens or 0)
        for each in contexts:
            each.state.parent_id, each.state.end_ns, each.state.tokens = op.parent_id or 0, op.end_ns, tokens
        for each, chain in zip(contexts, chains):
            self._answer(each, chain, Moment(op.end_ns, moment.turn, op_id), op, single=len(chains) == 1)
        if given is not None and given.text is not None:
            prefix = TextPrefix.of(given.text)
            for each, chain in zip(contexts, chains or [[]]):
                reply = op.response_text if op.response_text is not None else chain[-1].text if chain else ""
                each.state.prompt_text, each.state.whole_text = prefix, TextPrefix.of(given.text + reply)
        self._contexts += filter(len, contexts)
        del self._contexts[:-MAX_CONTEXTS]
        return None if given is None else saw, contexts

    def _answer(self, context: OpenContext, chain: list[Message], moment: Moment, op: EndedOp, *, single: bool) -> None:
        for message in chain:
            is_reply = message.role == "assistant"
            tokens = op.response_tokens if single and len(chain) == 1 else None
            own = moment if is_reply else Moment(moment.time_ns, moment.turn)
            context.append(self._book.add(message, own, tokens=tokens), self._book)
            if is_reply:
                context.note_reply(message)

    def _read_prompt(self, op: EndedOp, text: str | None, outputs: Any = None) -> _Given | None:
        """What a call was given: messages, or else text."""
        prompt = self._reader.read(op.inputs, self._contexts[::-1])
        if prompt is not None:
            return _Given(self._after_response(prompt))
        system: list[Message] = []
        if text is None:
            inputs = self._open(op.inputs)
            text = prompt_text(inputs, outputs)
            system = read_system(inputs) if text is not None else []
        if not text and op.prompt_text is not None:
            return self._read_text(op.prompt_text)
        return self._read_text(text, system) if text else None

    def _after_response(self, prompt: GivenPrompt) -> GivenPrompt:
        """A call that names the response before it is given all of that too."""
        if prompt.previous is None:
            return prompt
        context = next((each for each in reversed(self._contexts) if each.state.response_id == prompt.previous), None)
        return prompt if context is None else GivenPrompt(prompt.messages, context, len(context))

    def _read_text(self, text: str, system: Sequence[Message] = ()) -> _Given:
        """A prompt that is text: what it has more than the call before, as messages."""
        chars, best, count = 0, None, 0
        for context in self._contexts:
            state = context.state
            for prefix, length in ((state.whole_text, len(context)), (state.prompt_text, state.seen)):
                is_longer = prefix is not None and (best is None or prefix.chars >= chars) and prefix.begins(text)
                if prefix is not None and is_longer and (prefix is state.whole_text or prefix.chars == len(text)):
                    chars, best, count = prefix.chars, context, length
        read = read_prompt_text(text) if best is None else read_added_text(text[chars:])
        messages = [*system, *read.messages] if best is None else read.messages
        return _Given(GivenPrompt.of(messages, best, count), text, read.prefill)

    def _tool_call(self, op: EndedOp, inside: list[Inner]) -> None:
        message = read_tool_result(op.name, self._open(op.outputs), op.error)
        digest = fingerprint(message)
        if any(each.digest == digest and not each.is_reply for each in inside):  # a tool around a tool
            return
        inputs = self._open(op.inputs)
        arguments = argument_hashes(inputs)
        for context in reversed(self._contexts):
            call = find_call(context.state.calls, op.name, arguments) if message.call_id is None else None
            if call is not None:
                message.call_id = call.id
                context.state.calls = [each for each in context.state.calls if each is not call]
                break
        asked = any(call.name == op.name for context in self._contexts for call in context.state.calls)
        detail = None if asked or message.call_id is not None else {"arguments": shown_arguments(inputs)}
        seq = self._book.add(message, Moment(op.end_ns, self._state.turns, op.op_id), digest=digest, detail=detail)
        self._pending.add(PendingResult(seq, op.op_id, op.name, digest, arguments, message.call_id), message.text)
        self._note_inner(op.parent_id, [Inner(digest, False)])

    def _environment(self, op: EndedOp) -> None:
        outputs = self._open(op.outputs)
        if outputs is not None:
            text = read_tool_result(op.name, outputs).text
            self._pending.add(PendingResult(NO_ROW, op.op_id, op.name, 0), text)

    def _open(self, value: Any) -> Any:
        return self._decode(value) if isinstance(value, Raw) else value

    def _note_inner(self, parent_id: int | None, inner: list[Inner]) -> None:
        if parent_id and inner:
            known = self._state.inner.setdefault(parent_id, [])
            known += inner
            del known[:-MAX_INNER]


class _Given(NamedTuple):
    """A prompt, and the text that it was, if it was one."""

    prompt: GivenPrompt
    text: str | None = None
    prefill: str = ""
