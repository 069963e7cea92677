"""What a message is: one type, one reader per shape, and the transcript that a rollout's messages make."""

from typing import TYPE_CHECKING

from rolltrace._later import load_later

if TYPE_CHECKING:
    from rolltrace.messages.content import read_tagged_results
    from rolltrace.messages.formats import read_message, read_messages
    from rolltrace.messages.inline_images import take_images
    from rolltrace.messages.message import Author, Message, ToolCall, as_text, fingerprint, to_genai
    from rolltrace.messages.model_calls import (
        read_given_messages,
        read_prompt,
        read_replies,
        read_reply,
        read_tool_result,
    )
    from rolltrace.messages.streams import join_stream, stream_length
    from rolltrace.messages.template import read_prompt_text, read_response_text
    from rolltrace.messages.transcript import EndedOp, OpRows, Transcript
    from rolltrace.messages.transcript_rows import MessageRow, Rewrite, read_ranges

_LATER, __getattr__ = load_later(
    __name__,
    {
        "content": "read_tagged_results",
        "formats": "read_message read_messages",
        "inline_images": "take_images",
        "message": "Author Message ToolCall as_text fingerprint to_genai",
        "model_calls": "read_given_messages read_prompt read_replies read_reply read_tool_result",
        "streams": "join_stream stream_length",
        "template": "read_prompt_text read_response_text",
        "transcript": "EndedOp OpRows Transcript",
        "transcript_rows": "MessageRow Rewrite read_ranges",
    },
)
"""Name -> its module, loaded when it is asked for: a rollout process needs the readers, a reader of tables the rows."""

__all__ = [
    "Author",
    "EndedOp",
    "Message",
    "MessageRow",
    "OpRows",
    "Rewrite",
    "ToolCall",
    "Transcript",
    "as_text",
    "fingerprint",
    "join_stream",
    "read_given_messages",
    "read_message",
    "read_messages",
    "read_prompt",
    "read_prompt_text",
    "read_ranges",
    "read_replies",
    "read_reply",
    "read_response_text",
    "read_tagged_results",
    "read_tool_result",
    "stream_length",
    "take_images",
    "to_genai",
]
