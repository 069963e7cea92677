"""The conversation of a trajectory, read off its environment steps, where its ops tell none.

An environment of tokens has model calls without messages and without text, and the steps have both: what the policy saw
(`prompt`) and what it answered (`policy_response`). The rules are those of ops (`query.conversation`): messages that
begin as the conversation does have all of it in them, others are added, and so is a text that was not there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.query.conversation import GivenMessages, Told, asked, messages_of, told_by
from rolltrace.record import Message, reply_of

if TYPE_CHECKING:
    from rolltrace.query.events import Transition
    from rolltrace.query.op import Op


def conversation_of(
    ops: Sequence[Op], steps: Sequence[Transition] = (), prompts: GivenMessages | None = None
) -> list[Message]:
    """The messages of these ops, which stand in the order they began, or of these steps."""
    return [each.message for each in told_in(ops, steps, prompts)]


def told_in(ops: Sequence[Op], steps: Sequence[Transition], prompts: GivenMessages | None = None) -> list[Told]:
    """The same, with the ops that produced them. Steps are asked if the policy says nothing in what the ops tell."""
    told = told_by(ops, prompts)
    if not steps or any(each.message.get("role") == "assistant" for each in told):
        return told
    return told_by_steps(steps, [op for op in ops if op.kind == "llm"]) or told


def told_by_steps(steps: Sequence[Transition], calls: Sequence[Op]) -> list[Told]:
    """The messages of these steps. Each reply is that of a call of the policy, if there are as many."""
    traces = [step.trace for step in steps if isinstance(step.trace, dict)]
    replies = [reply_of(trace.get("policy_response")) for trace in traces]
    callers = iter(calls if len(calls) == sum(reply is not None for reply in replies) else ())
    told: list[Told] = []
    seen = ""
    for trace, reply in zip(traces, replies):
        prompt = trace.get("prompt")
        messages = messages_of(prompt)
        if messages is None and isinstance(prompt, str):
            messages = asked(prompt[len(seen) :] if prompt.startswith(seen) else prompt)
            seen = prompt
            told += map(Told, messages)
        elif messages is not None:
            again = not told or messages[0] == told[0].message
            told = _recognised(messages, told) if again else [*told, *map(Told, messages)]
        if reply is not None:
            told.append(Told(reply, next(callers, None)))
            seen += _text(reply) if seen else ""
    return told


def _recognised(messages: list[Message], told: list[Told]) -> list[Told]:
    """The messages, with the calls that had produced those at the same place."""
    before: list[Any] = [*told, *[None] * (len(messages) - len(told))]
    return [
        Told(message, each.op if each is not None and each.message.get("role") == message.get("role") else None)
        for message, each in zip(messages, before)
    ]


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
