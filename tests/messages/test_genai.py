"""Messages are written as OpenTelemetry's GenAI conventions have them, and read back."""

from __future__ import annotations

import pytest

from rolltrace.messages import Message, ToolCall, fingerprint, read_messages, to_genai


@pytest.mark.parametrize(
    "message",
    [
        Message("user", "1+2?"),
        Message("assistant", "yes", "hm", [ToolCall("add", '{"a": 1}', "c1")]),
        Message("assistant", calls=[ToolCall("add", "{}")]),
        Message("tool", "3", call_id="c1"),
        Message("user", "what?", parts=[{"type": "text", "text": "what?"}, {"type": "text", "text": ""}]),
    ],
)
def test_a_message_is_read_back_as_it_was(message: Message) -> None:
    (again,) = read_messages([to_genai(message)]) or []
    assert fingerprint(again) == fingerprint(message)
    assert (again.reasoning, again.call_id) == (message.reasoning, message.call_id)


def test_parts_that_are_no_text_are_generic() -> None:
    part = {"type": "image_url", "image_url": {"url": "u"}}
    assert to_genai(Message("user", parts=[part]))["parts"] == [{"type": "generic", "content": part}]
