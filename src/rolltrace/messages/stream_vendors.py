"""Streams of Anthropic's messages, Gemini's contents and LangChain's chunks."""

from __future__ import annotations

from typing import Any

from rolltrace.messages.message import Json
from rolltrace.messages.stream_openai import add_text, dicts, newest, position


def join_anthropic(items: list[Json]) -> Json:
    """Events of messages; those that the SDK's helper adds repeat what the others say."""
    message: Json = {"role": "assistant", "content": []}
    blocks: dict[int, Json] = {}
    for item in items:
        kind, index = item.get("type"), position(item.get("index"))
        if kind == "message_start" and isinstance(item.get("message"), dict):
            message = {**item["message"], "content": []}
        elif kind == "content_block_start" and isinstance(item.get("content_block"), dict):
            blocks[index] = dict(item["content_block"])
        elif kind == "content_block_delta" and isinstance(item.get("delta"), dict):
            block = blocks.setdefault(index, {"type": "text"})
            for name in ("text", "thinking", "partial_json"):
                add_text(block, name, item["delta"].get(name))
        elif kind == "message_delta":
            _end_anthropic(message, item)
    for index in sorted(blocks):
        block = blocks[index]
        if "partial_json" in block:
            block["input"] = block.pop("partial_json")
        message["content"].append(block)
    return message


def _end_anthropic(message: Json, item: Json) -> None:
    if isinstance(item.get("delta"), dict):
        message.update(newest([item["delta"]], "stop_reason", "stop_sequence"))
    if isinstance(item.get("usage"), dict):
        usage = message.get("usage")
        counts = {name: value for name, value in item["usage"].items() if value is not None}
        message["usage"] = {**(usage if isinstance(usage, dict) else {}), **counts}


def join_gemini(items: list[Json]) -> Json:
    """Chunks of `generate_content`: parts that follow each other, and the usage of all so far."""
    candidates: dict[int, Json] = {}
    for candidate in (candidate for item in items for candidate in dicts(item.get("candidates"))):
        index = position(candidate.get("index"))
        whole = candidates.setdefault(index, {"content": {"role": "model", "parts": []}})
        content = candidate.get("content")
        parts: list[Json] = whole["content"]["parts"]
        for part in dicts(content.get("parts")) if isinstance(content, dict) else ():
            goes_on = bool(parts) and _is_text(parts[-1]) and _is_text(part)
            if goes_on and parts[-1].get("thought") == part.get("thought"):
                parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
            else:
                parts.append(part)
        whole.update(newest([candidate], "finish_reason", "finishReason"))
    names = ("usage_metadata", "usageMetadata", "model_version", "modelVersion", "response_id", "responseId")
    return {**newest(items, *names), "candidates": [candidates[index] for index in sorted(candidates)]}


def has_ended_gemini(item: Json) -> bool:
    """Whether a chunk says why the model stopped."""
    return any(newest([candidate], "finish_reason", "finishReason") for candidate in dicts(item.get("candidates")))


def _is_text(part: Json) -> bool:
    return isinstance(part.get("text"), str)


def join_langchain(items: list[Json]) -> Json:
    """Chunks of AI messages."""
    whole: Json = {"type": "ai", "content": "", "tool_calls": []}
    parts: list[Any] = []
    calls: list[Json] = []
    usage: Json = {}
    for item in items:
        if item.get("type") not in ("AIMessageChunk", "ai"):
            continue
        content = item.get("content")
        parts += content if isinstance(content, list) else [content] if isinstance(content, str) and content else []
        _add_calls(calls, item)
        counts = item.get("usage_metadata")
        usage = _sum(usage, counts) if isinstance(counts, dict) else usage
        metadata = item.get("response_metadata")
        if isinstance(metadata, dict):
            whole["response_metadata"] = {**whole.get("response_metadata", {}), **metadata}
        more = item.get("additional_kwargs")
        if isinstance(more, dict):
            add_text(whole, "reasoning_content", more.get("reasoning_content"))
    texts = all(isinstance(part, str) for part in parts)
    whole["content"] = "".join(parts) if texts else [part for part in parts if not _is_piece_of_call(part)]
    whole["tool_calls"] = [{name: call[name] for name in ("id", "name", "args")} for call in calls]
    return {**whole, "usage_metadata": usage} if usage else whole


def _add_calls(calls: list[Json], item: Json) -> None:
    for piece in dicts(item.get("tool_call_chunks")):
        index = piece.get("index")
        call = next((each for each in calls if index is not None and each["index"] == index), None)
        if call is None:
            call = {"index": index, "name": "", "args": ""}
            calls.append(call)
        call["id"] = piece.get("id") or call.get("id")
        add_text(call, "name", piece.get("name"))
        add_text(call, "args", piece.get("args"))


def _is_piece_of_call(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("tool_use", "input_json_delta", "tool_call_chunk")


def _sum(before: Json, counts: Json) -> Json:
    total = dict(before)
    for name, value in counts.items():
        if isinstance(value, dict):
            inside = total.get(name)
            total[name] = _sum(inside if isinstance(inside, dict) else {}, value)
        elif isinstance(value, int):
            total[name] = total.get(name, 0) + value
    return total
