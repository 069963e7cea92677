"""Messages as OpenTelemetry's GenAI conventions have them: a role and parts.

They are read like any other message (`message_list`); here they are written.
"""

from __future__ import annotations

from rolltrace.messages.message import Json, Message


def to_genai(message: Message) -> Json:
    """A message as an entry of `gen_ai.input.messages` or `gen_ai.output.messages`."""
    if message.role in ("tool", "function"):
        response = message.parts if message.parts is not None else message.text
        return {
            "role": message.role,
            "parts": [{"type": "tool_call_response", "id": message.call_id, "response": response}],
        }
    parts: list[Json] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.parts is None:
        if message.text or not message.calls:
            parts.append({"type": "text", "content": message.text})
    else:
        parts += map(_part, message.parts)
    for call in message.calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
    return {"role": message.role, "parts": parts}


def _part(part: Json) -> Json:
    if part.get("type") == "text":
        return {"type": "text", "content": part.get("text", "")}
    return {"type": "generic", "content": part}
