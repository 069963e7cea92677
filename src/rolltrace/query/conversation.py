"""The conversation of a trajectory, read off its ops.

The rule, in the order it is tried:
1. A model call that was given messages, in one of the forms that `record.messages` knows, which begin as the
   conversation does (whatever the system says) has all of it in them; one whose messages begin otherwise adds them. Its
   reply follows, then the results of tools called since.
2. Otherwise each model call adds its prompt text, if it is not the one before, as `user`, and its reply as
   `assistant`; each tool call adds its result as `tool`. Where there are only tokens, their text is taken, of a prompt
   what it has more than the turn before; if a known chat template has made it, as the messages that it was made of.
3. Without any model call, the first op whose tokens have a text gives it, as `user` and `assistant`.
4. Where the policy says nothing in all of that, its environment steps are asked (`query.step_conversation`).

A reply is what `record.reply` finds in the outputs, or the text of its tokens. All messages are in the form of OpenAI's
chat format, whatever form they came in, without what is about the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.query.templates import messages_in, without_end
from rolltrace.record import Message, has_more, put_together, read_messages, reply_of, text_of, to_json

if TYPE_CHECKING:
    from rolltrace.query.op import Op

PROMPT_KEYS = ("prompt", "prompt_text", "prompt_str", "input_text", "input", "inputs", "query", "text", "question")
_MESSAGES_KEYS = (
    "messages", "raw_prompt", "input", "prompt", "inputs", "prompts", "contents", "state", "chat_history", "history",
)  # fmt: skip
"""Where messages are looked for first; then any argument that is nothing but messages is taken."""
_MANY_CALLS = 100
"""From how many model calls on not all of them are read."""
_SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction")
"""What Anthropic's messages, OpenAI's responses and Gemini have the system's message in."""


class ProducedMessage(NamedTuple):
    """A message, and the op that produced it as far as that is known: a model call, or a tool call."""

    message: Message
    op: Op | None = None


GivenMessages = dict[int, list[Message] | None]
"""What some model calls were given, by the id of their op: reading it again takes as long as all the rest."""


def told_by(ops: Sequence[Op], prompts: GivenMessages | None = None) -> list[ProducedMessage]:
    """The messages of these ops, which stand in the order they began; of pruned ones nothing is known."""
    if sum(op.kind == "llm" for op in ops) > _MANY_CALLS and (conversation := _told_by_last(ops)) is not None:
        return conversation
    conversation = []
    prompts = prompts or {}
    called: list[Op] = []
    readable: list[Op] = []
    for op in ops:  # all of an op at once: the payloads of a long trajectory are read in windows
        if op.kind == "aux_llm" or op.pruned is not None:
            continue
        readable.append(op)
        messages = None
        if op.kind == "llm":
            messages = prompts[op.op_id] if op.op_id in prompts else messages_of(op.inputs)
        if messages is not None:
            before = [each.message for each in conversation[: len(messages)]]
            if not conversation or _opening(messages) == _opening(before):
                conversation = _recognised(messages, conversation, called)
            else:
                conversation += map(ProducedMessage, messages)
            conversation += _reply(op)
            called = []
        elif conversation and op.kind == "llm":
            conversation += _reply(op)
        elif conversation and op.kind == "tool":
            conversation.append(_tool(op))
            called.append(op)
    return conversation or list(_from_texts(readable)) or list(_from_tokens(readable))


def _told_by_last(ops: Sequence[Op]) -> list[ProducedMessage] | None:
    """The same for a conversation that only grows, from its first model call and the last: each adds one reply and what
    its tools said. None if it is not known to be such a one.

    That is looked up in a few calls between. The payloads of all are read otherwise, and together these are hundreds of
    times the conversation, since each tells it from its beginning.
    """
    readable = [op for op in ops if op.kind != "aux_llm" and op.pruned is None]
    calls = [op for op in readable if op.kind == "llm"]
    first, last = messages_of(calls[0].inputs), messages_of(calls[-1].inputs)
    if first is None or last is None or last[: len(first)] != first:
        return None
    added = last[len(first) :]
    places = [at for at, message in enumerate(added, len(first)) if message.get("role") == "assistant"]
    if len(places) != len(calls) - 1 or places[:1] != [len(first)]:
        return None
    for number in (len(calls) // 3, 2 * len(calls) // 3):
        if messages_of(calls[number].inputs) != last[: places[number]]:
            return None
    op_at: dict[int, Op] = dict(zip(places, calls))
    tools = [at for at, message in enumerate(added, len(first)) if message.get("role") == "tool"]
    called = [op for op in readable if op.kind == "tool" and op.start_ns < calls[-1].start_ns]
    if len(tools) == len(called):
        op_at.update(zip(tools, called))
    conversation = [ProducedMessage(message, op_at.get(at)) for at, message in enumerate(last)]
    after = [op for op in readable if op.kind == "tool" and op.start_ns >= calls[-1].start_ns]
    return [*conversation, *_reply(calls[-1]), *map(_tool, after)]


def from_last_telling(ops: Sequence[Op], prompts: GivenMessages | None = None) -> Sequence[Op]:
    """The last of these ops, from which the conversation is the same as from all.

    What a conversation begins with never changes, and a model call whose messages begin so tells all of it again. Only
    the first of them and the last few are looked at: the payloads of a long trajectory are many times its text.
    What the first and the last call were given is noted in `prompts`.
    """
    calls = [at for at, op in enumerate(ops) if op.kind == "llm"]
    prompts = {} if prompts is None else prompts
    opening = next(((at, messages) for at in calls if (messages := messages_of(ops[at].inputs)) is not None), None)
    if opening is None:
        return ops
    first, beginning = opening
    for at in reversed(calls):
        messages = messages_of(ops[at].inputs) if at > first else beginning
        if at in (first, calls[-1]):
            prompts[ops[at].op_id] = messages
        if messages is not None and _opening(messages) == _opening(beginning):
            return ops[at:]
    return ops


def _opening(messages: list[Message]) -> Message:
    """What a conversation is known by: its first message but the system's, which may tell the time."""
    return next((each for each in messages if each.get("role") not in ("system", "developer")), messages[0])


def _recognised(
    messages: list[Message], conversation: list[ProducedMessage], called: list[Op]
) -> list[ProducedMessage]:
    """What a model call was given, with the ops that had produced it: the same role stands at the same place, and the
    results of the tools called since come in their order."""
    recognised = []
    waiting = {each.op_id: each for each in called}  # by id: to compare ops reads all that they hold
    for at, message in enumerate(messages):
        before = conversation[at] if at < len(conversation) else None
        op = before.op if before is not None and before.message.get("role") == message.get("role") else None
        if message.get("role") == "tool" and (op is None or op.op_id in waiting) and waiting:
            first = next(iter(waiting.values()))
            op = next((each for each in waiting.values() if each.name == message.get("name")), first)
            del waiting[op.op_id]
        recognised.append(ProducedMessage(message, op))
    return recognised


def _from_texts(ops: Sequence[Op]) -> Iterator[ProducedMessage]:
    before, decoded, tool_answered = None, "", False
    for op in ops:
        if op.kind == "llm":
            prompt = _prompt(op)
            if prompt is None and op.prompt_text is not None:
                goes_on = bool(decoded) and op.prompt_text.startswith(decoded)
                prompt = op.prompt_text[len(decoded) if goes_on else 0 :]
                if goes_on and tool_answered:  # what tools said stands there as their own message already
                    yield from (ProducedMessage(each) for each in messages_in(prompt) or () if not _is_of_tool(each))
                    prompt = None
                decoded, tool_answered = op.prompt_text + (op.response_text or ""), False
            if prompt and prompt != before:
                if before is None and isinstance(op.inputs, dict):
                    yield from map(ProducedMessage, _system(op.inputs))
                yield from map(ProducedMessage, asked(prompt))
            before = prompt
            yield from _reply(op)
        elif op.kind == "tool":
            tool_answered = True
            yield _tool(op)


def _is_of_tool(message: Message) -> bool:
    """Qwen's template gives the results of tools to the user, between these marks."""
    content: str = message["content"]
    return message["role"] == "tool" or content.lstrip().startswith("<tool_response>")


def _from_tokens(ops: Sequence[Op]) -> Iterator[ProducedMessage]:
    for op in ops:
        if op.response_text is not None:
            if op.prompt_text is not None:
                yield from map(ProducedMessage, asked(op.prompt_text))
            yield ProducedMessage({"role": "assistant", "content": without_end(op.response_text)}, op)
            return


def asked(text: str) -> list[Message]:
    """What a model was given as text, as messages."""
    return messages_in(text) or [{"role": "user", "content": text}]


def messages_of(inputs: Any) -> list[Message] | None:
    """The messages that a model call was given, if it was."""
    messages = read_messages(inputs)
    if messages is not None or not isinstance(inputs, dict):
        return messages
    names = [*(name for name in _MESSAGES_KEYS if name in inputs), *inputs]
    for name in names:
        value = inputs[name]
        if isinstance(value, dict):  # the state of a LangGraph, a prompt of LangChain
            value = value.get("messages")
        messages = read_messages(value)
        if messages is not None:
            return [*_system(inputs), *messages]
    return None


def _system(inputs: dict[str, Any]) -> list[Message]:
    prompt = next((inputs[name] for name in _SYSTEM_KEYS if isinstance(inputs.get(name), str | list | dict)), None)
    if isinstance(prompt, dict):
        prompt = prompt.get("parts")
    return read_messages([{"role": "system", "content": prompt}]) or [] if prompt else []


def as_text(value: Any) -> str:
    """A value as it would stand in a message."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # an integer that has no decimals in Python
        return json.dumps(to_json(value), ensure_ascii=False)


def reply_of_op(op: Op) -> Message | None:
    """What a model call answered; if it gave nothing but tokens, their text."""
    message = reply_of(op.outputs)
    if message is None and op.response_text is not None:
        return {"role": "assistant", "content": without_end(op.response_text)}
    return message


def spoken(message: Message) -> str:
    """What a model said in a message, as one text: with its calls of tools, if it made any."""
    calls = message.get("tool_calls")
    text = text_of(message) if has_more(message) or isinstance(message.get("content"), str) else ""
    return "\n".join(filter(None, [text, as_text(calls) if calls else ""]))


def _reply(op: Op) -> list[ProducedMessage]:
    message = reply_of_op(op)
    return [] if message is None else [ProducedMessage(message, op)]


def _tool(op: Op) -> ProducedMessage:
    result = op.error if op.outputs is None and op.error is not None else op.outputs
    return ProducedMessage({"role": "tool", "name": op.name, "content": as_text(result)}, op)


def _prompt(op: Op) -> str | None:
    """The text that a model call was given; vLLM repeats it in what it gives back."""
    if isinstance(op.inputs, str):
        return op.inputs
    prompt = _text(op.inputs, PROMPT_KEYS)
    if prompt is None and isinstance(op.inputs, dict):
        several = op.inputs.get("prompts")
        prompt = several if isinstance(several, str) else _only_text(several)
    if prompt is not None:
        return prompt
    result = put_together(op.outputs)
    result = result[0] if isinstance(result, list) and len(result) == 1 else result
    is_repeated = isinstance(result, dict) and isinstance(result.get("outputs"), list)
    return _text(result, ("prompt",)) if is_repeated else None


def _only_text(values: Any) -> str | None:
    return values[0] if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str) else None


def _text(value: Any, keys: Sequence[str]) -> str | None:
    if isinstance(value, dict):
        return next((value[key] for key in keys if isinstance(value.get(key), str)), None)
    return None
