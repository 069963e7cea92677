"""The conversation of a trajectory, read off its environment steps, where its ops tell none.

An environment of tokens has model calls without messages and without text, and the steps have both: what the policy saw
(`prompt`) and what it answered (`policy_response`). The rules are those of ops (`query.conversation`): messages that
begin as the conversation does have all of it in them, others are added, and so is a text that was not there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.query.conversation import GivenMessages, ProducedMessage, asked, messages_of, told_by
from rolltrace.record import Message, reply_of

if TYPE_CHECKING:
    from rolltrace.query.events import Transition
    from rolltrace.query.op import Op


def conversation_of(
    ops: Sequence[Op], steps: Sequence[Transition] = (), prompts: GivenMessages | None = None
) -> list[Message]:
    """The messages of these ops, which stand in the order they began, or of these steps."""
    return [each.message for each in told_in(ops, steps, prompts)]


def told_in(
    ops: Sequence[Op], steps: Sequence[Transition], prompts: GivenMessages | None = None
) -> list[ProducedMessage]:
    """The same, with the ops that produced them. Steps are asked if the policy says nothing in what the ops tell."""
    conversation = told_by(ops, prompts)
    if not steps or any(each.message.get("role") == "assistant" for each in conversation):
        return conversation
    return told_by_steps(steps, [op for op in ops if op.kind == "llm"]) or conversation


def told_by_steps(steps: Sequence[Transition], calls: Sequence[Op]) -> list[ProducedMessage]:
    """The messages of these steps. Each reply is that of a call of the policy, if there are as many."""
    traces = [step.trace for step in steps if isinstance(step.trace, dict)]
    replies = [reply_of(trace.get("policy_response")) for trace in traces]
    callers = iter(calls if len(calls) == sum(reply is not None for reply in replies) else ())
    conversation: list[ProducedMessage] = []
    text_so_far = ""
    for trace, reply in zip(traces, replies):
        prompt = trace.get("prompt")
        messages = messages_of(prompt)
        if messages is None and isinstance(prompt, str):
            messages = asked(prompt[len(text_so_far) :] if prompt.startswith(text_so_far) else prompt)
            text_so_far = prompt
            conversation += map(ProducedMessage, messages)
        elif messages is not None:
            if not conversation or messages[0] == conversation[0].message:
                conversation = _recognised(messages, conversation)
            else:
                conversation += map(ProducedMessage, messages)
        if reply is not None:
            conversation.append(ProducedMessage(reply, next(callers, None)))
            text_so_far += _text(reply) if text_so_far else ""
    return conversation


def _recognised(messages: list[Message], conversation: list[ProducedMessage]) -> list[ProducedMessage]:
    """The messages, with the calls that had produced those at the same place."""
    before: list[Any] = [*conversation, *[None] * (len(messages) - len(conversation))]
    return [
        ProducedMessage(
            message, each.op if each is not None and each.message.get("role") == message.get("role") else None
        )
        for message, each in zip(messages, before)
    ]


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
