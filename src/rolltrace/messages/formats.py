"""One message, or a list of them, in the shape that a provider or a framework has for it.

Shapes are told apart by what a value is: a dict with a role (OpenAI's chat format, Anthropic's, Gemini's, the GenAI
conventions of OpenTelemetry, the chat lists of verl, tinker and TRL), a dict with one of LangChain's types, an item of
OpenAI's responses, a pair. They differ in what their content holds, which `content` reads.
"""

from __future__ import annotations

from typing import Any

from rolltrace.messages.content import make_call, make_result, read_content, read_tagged_results, read_tags
from rolltrace.messages.message import Json, Message, ToolCall, as_text, dicts

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "gpt": "assistant"}
"""What LangChain, Gemini and datasets call the roles that all others call otherwise."""
_PAIR_ROLES = frozenset({"human", "ai", "user", "assistant", "system", "developer", "tool"})
_CONTENT_KEYS = ("content", "text", "parts")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Servers give one of these, or the same text under two of them."""
_REASONING_NAMES = frozenset({*_REASONING_KEYS, "reasoning_details"})
_CALL_NAMES = frozenset({"tool_calls", "invalid_tool_calls", "function_call"})
_PLAIN_KEYS = frozenset({"role", "content", "type"})
_LANGCHAIN_TYPES = {
    **{name: name for name in ("human", "ai", "system", "tool", "function", "developer")},
    "HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool",
    "FunctionMessage": "function",
}  # fmt: skip
"""Types of LangChain's messages and names of their classes, and whose they are."""
_CALL_ITEMS = ("function_call", "custom_tool_call")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output", "computer_call_output", "local_shell_call_output")
_SERVER_CALL_ITEMS = (
    "web_search_call", "file_search_call", "computer_call", "code_interpreter_call", "image_generation_call",
    "local_shell_call", "mcp_call",
)  # fmt: skip
"""Calls of tools that the server itself runs."""
_ITEM_TYPES = frozenset({*_CALL_ITEMS, *_RESULT_ITEMS, *_SERVER_CALL_ITEMS, "reasoning"})
_ITEM_NOISE = frozenset({"type", "id", "status", "call_id", "name", "arguments", "output", "result"})


def read_messages(values: Any) -> list[Message] | None:
    """All of these as messages; None if any of them is none, or if there is nothing."""
    if not isinstance(values, list) or not values:
        return None
    conversation: list[Message] = []
    was_item = False
    for value in values:
        messages = read_message(value)
        if messages is None:
            return None
        item = is_item(value)
        for message in messages:
            if (item or was_item) and conversation and conversation[-1].role == message.role == "assistant":
                conversation[-1] = join_items(conversation[-1], message)
            else:
                conversation.append(message)
        was_item = item
    name_tools(conversation)
    return conversation or None


def name_tools(conversation: list[Message]) -> None:
    """Say of each tool result which tool it is of, where only the call says so."""
    names: dict[str, str] = {}
    for message in conversation:
        for call in message.calls:
            if call.id is not None:
                names[call.id] = call.name
        if message.tool_name is None and message.call_id is not None:
            message.tool_name = names.get(message.call_id)


def read_message(value: Any) -> list[Message] | None:
    """The messages of one item of a conversation, usually one; None if it is no such item."""
    if isinstance(value, list):  # a pair of role and text
        is_pair = len(value) == 2 and isinstance(value[0], str) and value[0] in _PAIR_ROLES
        return read_role(value[0], {"content": value[1]}) if is_pair else None
    if not isinstance(value, dict):
        return None
    role = value.get("role")
    if isinstance(role, str):
        return read_role(role, value)
    sender, said = value.get("from"), value.get("value")
    if isinstance(sender, str) and isinstance(said, str):  # datasets in the form of ShareGPT
        return read_role(sender, {"content": said})
    if not isinstance(value.get("type"), str):  # Gemini's contents may leave out that the user says them
        return read_role("user", value) if isinstance(value.get("parts"), list) else None
    return _read_item(value) if is_item(value) else _read_langchain(value)


def read_role(role: str, fields: Json) -> list[Message]:
    """A message with a role, after the results of tools that stand in it (as Anthropic has them)."""
    role = _ROLES.get(role) or (role if role.isascii() else as_text(role))
    text = fields.get("content")
    if type(text) is str:  # as most are
        message = Message(role, text if text.isascii() else as_text(text))
        _read_beside(message, fields)
        return [message]
    content = read_content(next((fields[name] for name in _CONTENT_KEYS if fields.get(name) is not None), None))
    message = content.fill(Message(role))
    message.reasoning, message.calls = "".join(content.thoughts) or None, content.calls
    _read_beside(message, fields)
    if content.results and message.is_empty:
        return content.results
    return [*content.results, message]


def _read_beside(message: Message, fields: Json) -> None:
    """Read what stands beside the content, and what stands between tags in it."""
    role = message.role
    if not fields.keys() <= _PLAIN_KEYS:
        message.reasoning = _reasoning(fields) or message.reasoning
        message.calls = _read_calls(fields) or message.calls
        if isinstance(fields.get("name"), str):
            message.name = as_text(fields["name"])
        if role == "assistant":
            _read_voice(message, fields)
        elif role in ("tool", "function"):
            _read_result(message, fields)
    if role == "assistant":
        read_tags(message)
    elif role == "user" and read_tagged_results(message.text) is not None:
        message.author = "tool"


def _reasoning(fields: Json) -> str | None:
    if _REASONING_NAMES.isdisjoint(fields):
        return None
    for name in _REASONING_KEYS:
        if isinstance(fields.get(name), str) and fields[name]:
            return as_text(fields[name])
    details = dicts(fields.get("reasoning_details"))
    return as_text("".join(each["text"] for each in details if isinstance(each.get("text"), str))) or None


def _read_calls(fields: Json) -> list[ToolCall]:
    """The tool calls that stand beside the content; those that cannot be parsed are still what the model said."""
    if _CALL_NAMES.isdisjoint(fields):
        return []
    lists = [fields[name] for name in ("tool_calls", "invalid_tool_calls") if isinstance(fields.get(name), list)]
    calls = [_read_call(call) for each in lists for call in each]
    single = fields.get("function_call")
    if not calls and isinstance(single, dict) and isinstance(single.get("name"), str):  # before there were tools
        calls.append(make_call(None, single["name"], single.get("arguments")))
    return calls


def _read_call(call: Any) -> ToolCall:
    if not isinstance(call, dict):
        return make_call(None, None, call)
    inner = next((call[name] for name in ("function", "custom") if isinstance(call.get(name), dict)), call)
    arguments = next((inner[name] for name in ("args", "arguments", "input") if name in inner), None)
    return make_call(call.get("id", call.get("tool_call_id")), inner.get("name"), arguments)


def _read_voice(message: Message, fields: Json) -> None:
    """What a model may say beside text: that it refuses, or by voice."""
    refusal, audio = fields.get("refusal"), fields.get("audio")
    if isinstance(refusal, str) and refusal and not message.text:
        message.text = as_text(refusal)
        message.parts = [*(message.parts or ()), {"type": "refusal", "refusal": message.text}]
    if isinstance(audio, dict) and audio:
        transcript = audio.get("transcript")
        if isinstance(transcript, str) and not message.text:
            message.text = as_text(transcript)
        part = {name: audio[name] for name in ("id", "transcript") if isinstance(audio.get(name), str)}
        message.parts = [*(message.parts or ()), {"type": "audio", "audio": part}]


def _read_result(message: Message, fields: Json) -> None:
    call_id = fields.get("tool_call_id", fields.get("tool_use_id"))
    message.call_id = as_text(call_id) if call_id else None
    message.tool_name, message.name = message.name, None
    if fields.get("status") == "error" or fields.get("is_error") is True:
        message.is_error = True
    if message.tool_name is None and isinstance(fields.get("tool_name"), str):
        message.tool_name = as_text(fields["tool_name"])


def _read_langchain(value: Json) -> list[Message] | None:
    """A message of LangChain: an object as it is recorded, `messages_to_dict`, a chunk, or as callbacks write it."""
    kind, fields = value.get("type"), value
    if kind == "constructor":
        names, fields = value.get("id"), value.get("kwargs") or {}
        kind = names[-1] if isinstance(names, list) and names else None
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        fields = value["data"]
    role = _LANGCHAIN_TYPES.get(kind.removesuffix("Chunk")) if isinstance(kind, str) else None
    if role is None or not isinstance(fields, dict) or "content" not in fields:
        return None
    more = fields.get("additional_kwargs")
    if not isinstance(more, dict) or not more:
        return read_role(role, fields)
    own = {name: each for name, each in fields.items() if each is not None and each != []}
    if own.get("tool_calls") or own.get("invalid_tool_calls"):
        more = {name: each for name, each in more.items() if name != "tool_calls"}  # the same, unparsed
    return read_role(role, {**more, **own})


def is_item(value: Any) -> bool:
    """Whether a value is an item of one of OpenAI's responses that is no message: several make one answer."""
    kind = value.get("type") if isinstance(value, dict) and value.get("role") is None else None
    return isinstance(kind, str) and kind in _ITEM_TYPES


def _read_item(item: Json) -> list[Message] | None:
    """The messages of an item; none of reasoning that the server keeps to itself. None if it is no item."""
    kind = item["type"]
    if kind in _CALL_ITEMS:
        if not isinstance(item.get("name"), str):
            return None
        arguments = item.get("arguments", item.get("input"))
        return [Message("assistant", calls=[make_call(item.get("call_id"), item["name"], arguments)])]
    if kind in _RESULT_ITEMS:
        return [make_result(item.get("call_id"), item.get("output"))]
    if kind in _SERVER_CALL_ITEMS:
        arguments = item.get("arguments", item.get("action"))
        if arguments is None:
            arguments = {name: value for name, value in item.items() if name not in _ITEM_NOISE and value is not None}
        name = item.get("name") if kind == "mcp_call" else kind.removesuffix("_call")
        return [Message("assistant", calls=[make_call(item.get("call_id") or item.get("id"), name, arguments)])]
    if "summary" in item or "content" in item:  # reasoning
        parts = [*dicts(item.get("summary")), *dicts(item.get("content"))]
        text = "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        return [Message("assistant", reasoning=as_text(text))] if text else []
    return None


def join_items(before: Message, message: Message) -> Message:
    """One message of two items that make one answer: reasoning, text and calls follow each other."""
    reasoning = "\n\n".join(filter(None, [before.reasoning, message.reasoning]))
    parts = None if before.parts is None and message.parts is None else [*_parts(before), *_parts(message)]
    return Message(
        "assistant", before.text + message.text, reasoning or None, [*before.calls, *message.calls],
        images=[*before.images, *message.images], parts=parts, name=before.name or message.name,
    )  # fmt: skip


def _parts(message: Message) -> list[Json]:
    if message.parts is not None:
        return message.parts
    return [{"type": "text", "text": message.text}] if message.text else []
