"""Streams of OpenAI's protocols: chat completions, completions, responses."""

from __future__ import annotations

from typing import Any

from rolltrace.messages.message import Json

_REASONING = ("reasoning_content", "reasoning")


def dicts(value: Any) -> list[Json]:
    """The dicts of a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def position(value: Any) -> int:
    """Which of several answers or parts a piece belongs to; the first if it does not say."""
    return value if isinstance(value, int) else 0


def add_text(whole: Json, name: str, piece: Any) -> None:
    """Append a piece to the text under this name."""
    if isinstance(piece, str):
        whole[name] = (whole.get(name) or "") + piece


def newest(items: list[Json], *names: str) -> Json:
    """The last value that any of the items has under each name."""
    return {name: item[name] for item in items for name in names if item.get(name) is not None}


def join_chat(items: list[Json]) -> Json:
    """Chunks of chat completions, with what servers add to them: reasoning, token ids."""
    choices: dict[int, Json] = {}
    for choice in (choice for item in items for choice in dicts(item.get("choices"))):
        index = position(choice.get("index"))
        whole = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        for name in ("content", *_REASONING, "refusal"):
            add_text(whole["message"], name, delta.get(name))
        _add_calls(whole["message"], delta.get("tool_calls"))
        if choice.get("finish_reason") is not None:
            whole["finish_reason"] = choice["finish_reason"]
        logprobs = choice.get("logprobs")
        for part in dicts(logprobs.get("content")) if isinstance(logprobs, dict) else ():
            whole.setdefault("logprobs", {"content": []})["content"].append(part)
        _add_token_ids(whole, choice)
    about = newest(items, "id", "model", "usage", "prompt_token_ids")
    return {**about, "object": "chat.completion", "choices": [choices[index] for index in sorted(choices)]}


def join_chat_events(items: list[Json]) -> Json:
    """Events of the stream helper of OpenAI's SDK: the chunks, and between them what it makes of those."""
    return join_chat([item["chunk"] for item in items if isinstance(item.get("chunk"), dict)])


def _add_token_ids(whole: Json, choice: Json) -> None:
    if isinstance(choice.get("token_ids"), list):
        whole["token_ids"] = [*whole.get("token_ids", ()), *choice["token_ids"]]


def _add_calls(message: Json, pieces: Any) -> None:
    calls = message.setdefault("tool_calls", []) if dicts(pieces) else []
    for piece in dicts(pieces):
        index = piece.get("index")
        call = next((each for each in calls if index is not None and each["index"] == index), None)
        if call is None:
            call = {"index": index, "type": "function", "function": {"name": "", "arguments": ""}}
            calls.append(call)
        if piece.get("id"):
            call["id"] = piece["id"]
        function = piece.get("function")
        if isinstance(function, dict):
            for name in ("name", "arguments"):
                add_text(call["function"], name, function.get(name))


def join_completion(items: list[Json]) -> Json:
    """Chunks of completions."""
    choices: dict[int, Json] = {}
    for choice in (choice for item in items for choice in dicts(item.get("choices"))):
        whole = choices.setdefault(position(choice.get("index")), {"text": ""})
        add_text(whole, "text", choice.get("text"))
        if choice.get("finish_reason") is not None:
            whole["finish_reason"] = choice["finish_reason"]
        _add_token_ids(whole, choice)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("token_logprobs"), list):
            whole.setdefault("logprobs", {"token_logprobs": []})["token_logprobs"].extend(logprobs["token_logprobs"])
        if isinstance(choice.get("prompt_token_ids"), list):  # vLLM has them in the choice, once
            whole["prompt_token_ids"] = choice["prompt_token_ids"]
    about = newest(items, "id", "model", "usage", "prompt_token_ids")
    return {**about, "choices": [choices[index] for index in sorted(choices)]}


def join_response(items: list[Json]) -> Json:
    """Events of responses: the last ones repeat all of it; if they never came, what the others said."""
    for item in reversed(items):
        whole = item.get("response")
        if isinstance(whole, dict) and whole.get("output"):
            return whole
    outputs: dict[int, Json] = {}
    for item in items:
        kind, index = item.get("type"), position(item.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(item.get("item"), dict):
            outputs[index] = dict(item["item"])
        elif kind == "response.output_text.delta":
            part = outputs.setdefault(index, {"type": "message", "role": "assistant"})
            if not dicts(part.get("content")):
                part["content"] = [{"type": "output_text", "text": ""}]
            add_text(part["content"][0], "text", item.get("delta"))
        elif kind == "response.function_call_arguments.delta":
            add_text(outputs.setdefault(index, {"type": "function_call"}), "arguments", item.get("delta"))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            part = outputs.setdefault(index, {"type": "reasoning"})
            if not dicts(part.get("summary")):
                part["summary"] = [{"type": "summary_text", "text": ""}]
            add_text(part["summary"][0], "text", item.get("delta"))
    return {"object": "response", "output": [outputs[index] for index in sorted(outputs)]}
