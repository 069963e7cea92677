"""The conversation of a trajectory, read off its ops.

The rule, in the order it is tried:
1. A model call that was given `messages` (a list of dicts with a role) which begin as the conversation does has all of
   it in them; one whose messages begin otherwise adds them. Its reply follows, then the results of tools called since.
2. Otherwise each model call adds its prompt text, if it is not the one before, as `user`, and its reply as
   `assistant`; each tool call adds its result as `tool`. Where there are only tokens, their text is taken, of a prompt
   what it has more than the turn before; if a known chat template has made it, as the messages that it was made of.
3. Without any model call, the first op whose tokens have a text gives it, as `user` and `assistant`.

A reply is a message dict, the `message` of the first of `choices`, the text under one of `TEXT_KEYS`, or the text of
its tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.query.templates import messages_in, without_end
from rolltrace.record import to_json

if TYPE_CHECKING:
    from rolltrace.query.trajectory import Op

Message = dict[str, Any]

PROMPT_KEYS = ("prompt", "prompt_text", "prompt_str", "input_text", "input", "query", "text")
TEXT_KEYS = ("content", "text", "response", "response_text", "response_str", "completion", "output_text", "output")
_WRAPPERS = ("message", "choices", "outputs", "sequences", "output")


def conversation_of(ops: Sequence[Op]) -> list[Message]:
    """The messages of these ops, which stand in the order they began; of pruned ones nothing is known."""
    told: list[Message] = []
    ops = [op for op in ops if op.pruned is None]
    for op in ops:
        messages = messages_of(op.inputs) if op.kind == "llm" else None
        if messages is not None:
            again = not told or messages[0] == told[0]
            told = [*messages, *_reply(op)] if again else [*told, *messages, *_reply(op)]
        elif told and op.kind == "llm":
            told += _reply(op)
        elif told and op.kind == "tool":
            told.append(_tool(op))
    return told or list(_from_texts(ops)) or list(_from_tokens(ops))


def _from_texts(ops: Sequence[Op]) -> Iterator[Message]:
    before, decoded, tool_answered = None, "", False
    for op in ops:
        if op.kind == "llm":
            prompt = _text(op.inputs, PROMPT_KEYS)
            if prompt is None and op.prompt_text is not None:
                goes_on = bool(decoded) and op.prompt_text.startswith(decoded)
                prompt = op.prompt_text[len(decoded) if goes_on else 0 :]
                if goes_on and tool_answered:  # what tools said stands there as their own message already
                    yield from (each for each in messages_in(prompt) or () if not _is_of_tool(each))
                    prompt = None
                decoded, tool_answered = op.prompt_text + (op.response_text or ""), False
            if prompt and prompt != before:
                yield from _asked(prompt)
            before = prompt
            yield from _reply(op)
        elif op.kind == "tool":
            tool_answered = True
            yield _tool(op)


def _is_of_tool(message: Message) -> bool:
    """Qwen's template gives the results of tools to the user, between these marks."""
    content: str = message["content"]
    return message["role"] == "tool" or content.lstrip().startswith("<tool_response>")


def _from_tokens(ops: Sequence[Op]) -> Iterator[Message]:
    for op in ops:
        if op.response_text is not None:
            if op.prompt_text is not None:
                yield from _asked(op.prompt_text)
            yield {"role": "assistant", "content": without_end(op.response_text)}
            return


def _asked(text: str) -> list[Message]:
    return messages_in(text) or [{"role": "user", "content": text}]


def messages_of(inputs: Any) -> list[Message] | None:
    """The messages that a model call was given, if it was."""
    if not isinstance(inputs, dict):
        return None
    for key in ("messages", "raw_prompt"):
        messages = inputs.get(key)
        if isinstance(messages, list) and messages and all(isinstance(m, dict) and "role" in m for m in messages):
            return messages
    return None


def reply_of(outputs: Any) -> Message | None:
    """What a model call answered, as a message."""
    if isinstance(outputs, str):
        return {"role": "assistant", "content": outputs}
    if isinstance(outputs, list):
        return reply_of(outputs[0]) if len(outputs) == 1 else None
    if not isinstance(outputs, dict):
        return None
    if "role" in outputs:
        return outputs
    text = _text(outputs, TEXT_KEYS)
    if text is not None:
        calls = outputs.get("tool_calls")
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    for key in _WRAPPERS:
        found = reply_of(outputs.get(key))
        if found is not None:
            return found
    return None


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


def _reply(op: Op) -> list[Message]:
    message = reply_of_op(op)
    return [] if message is None else [message]


def _tool(op: Op) -> Message:
    result = op.error if op.outputs is None and op.error is not None else op.outputs
    return {"role": "tool", "name": op.name, "content": as_text(result)}


def _text(value: Any, keys: Sequence[str]) -> str | None:
    if isinstance(value, dict):
        return next((value[key] for key in keys if isinstance(value.get(key), str)), None)
    return None
