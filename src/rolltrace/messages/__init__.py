"""What a message is: one type, one reader per shape, and the transcript that a rollout's messages make."""

from rolltrace.messages.genai import to_genai
from rolltrace.messages.inline_images import TakenImages, take_images
from rolltrace.messages.message import Author, Message, ToolCall, as_text, fingerprint
from rolltrace.messages.message_list import read_message, read_messages
from rolltrace.messages.prompt import read_prompt
from rolltrace.messages.reply import read_replies, read_tool_result
from rolltrace.messages.streams import StreamLength, join_stream, stream_length
from rolltrace.messages.template import read_prompt_text, read_response_text
from rolltrace.messages.transcript import EndedOp, OpRows, Transcript
from rolltrace.messages.transcript_rows import MessageRow, read_ranges

__all__ = [
    "Author",
    "EndedOp",
    "Message",
    "MessageRow",
    "OpRows",
    "StreamLength",
    "TakenImages",
    "ToolCall",
    "Transcript",
    "as_text",
    "fingerprint",
    "join_stream",
    "read_message",
    "read_messages",
    "read_prompt",
    "read_prompt_text",
    "read_ranges",
    "read_replies",
    "read_response_text",
    "read_tool_result",
    "stream_length",
    "take_images",
    "to_genai",
]
