"""One reply from the pieces in which it came: chunks and events of a stream, joined.

The result has the form that the same service gives without a stream, so whoever reads replies, tokens and usage knows
one form of each. Pieces that are not understood stay pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rolltrace.messages import stream_engines, stream_openai, stream_vendors
from rolltrace.messages.message import Json

_STREAM_KEYS = frozenset({"items", "count", "end", "return"})
"""What capture records of a generator."""
_ANTHROPIC_EVENTS = frozenset({"message_start", "content_block_delta", "content_block_start"})
_Joiner = Callable[[list[Json]], Any]


class StreamLength(NamedTuple):
    """How much of a stream was recorded."""

    kept: int
    total: int


def stream_length(outputs: Any) -> StreamLength | None:
    """How many items of a generator were recorded, and how many there were; None if it is no such output."""
    if not isinstance(outputs, dict) or not outputs.keys() <= _STREAM_KEYS:
        return None
    items, count = outputs.get("items"), outputs.get("count")
    return StreamLength(len(items), count) if isinstance(items, list) and isinstance(count, int) else None


def join_stream(outputs: Any) -> Any:
    """What a model call gave, as one value. Anything that is no stream, or not understood, as it is.

    A stream of which not everything was recorded becomes None: half a reply must not pass for one.
    """
    length = stream_length(outputs)
    if length is not None:
        if outputs.get("return") is not None:
            return join_stream(outputs["return"])
        return None if length.kept < length.total else _join(outputs["items"], outputs)
    if isinstance(outputs, list) and len(outputs) > 1 and _are_pieces(outputs):
        return _join(outputs, outputs)
    return outputs


def _join(items: list[Any], otherwise: Any) -> Any:
    texts = [item for item in items if isinstance(item, str)]
    if texts and all(item is None or isinstance(item, str) for item in items):  # a chunk without text gives None
        return "".join(texts)
    chunks = [_chunk(item) for item in items]
    if not chunks or not all(isinstance(chunk, dict) for chunk in chunks):
        return otherwise
    if len(chunks) == 1 and not _are_pieces(chunks):
        return chunks[0]
    join = _choose(chunks)
    return otherwise if join is None else join(chunks)


def _chunk(item: Any) -> Any:
    """LangGraph streams pairs of a chunk and what is known about it."""
    is_pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], dict) and isinstance(item[1], dict)
    return item[0] if is_pair else item


def _are_pieces(items: list[Any]) -> bool:
    """Whether a list that a function returned is a stream that it collected."""
    if not isinstance(_chunk(items[0]), dict):
        return False
    chunks = [item for item in map(_chunk, items) if isinstance(item, dict)]
    join = _choose(chunks)
    if join is stream_vendors.join_gemini:  # several answers look the same, but each of them has an end
        return not any(map(stream_vendors.has_ended_gemini, chunks[:-1]))
    return join not in (None, stream_engines.join_texts, stream_engines.join_sglang)


def _choose(items: list[Json]) -> _Joiner | None:
    kinds = {kind for item in items if isinstance(kind := item.get("type"), str)}
    if "AIMessageChunk" in kinds:
        return stream_vendors.join_langchain
    if not kinds.isdisjoint(_ANTHROPIC_EVENTS):
        return stream_vendors.join_anthropic
    if any(kind.startswith("response.") for kind in kinds):
        return stream_openai.join_response
    if "chunk" in kinds and any(isinstance(item.get("chunk"), dict) for item in items):
        return stream_openai.join_chat_events
    choices = [choice for item in items for choice in stream_openai.dicts(item.get("choices"))]
    if any(isinstance(choice.get("delta"), dict) for choice in choices):
        return stream_openai.join_chat
    if choices and any(item.get("object") == "text_completion" for item in items):
        return stream_openai.join_completion
    if any(isinstance(item.get("candidates"), list) for item in items):
        return stream_vendors.join_gemini
    if any(isinstance(item.get("token"), dict) and "text" in item["token"] for item in items):
        return stream_engines.join_tgi
    if all(isinstance(item.get("meta_info"), dict) and ("text" in item or "output_ids" in item) for item in items):
        return stream_engines.join_sglang
    is_text = all(stream_engines.text_place(item) is not None for item in items)
    return stream_engines.join_texts if is_text else None
