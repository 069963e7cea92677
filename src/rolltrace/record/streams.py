"""One reply from the pieces in which it came: chunks and events of a stream, put together.

What comes out has the form that the same service gives without a stream, so whoever reads replies, tokens and usage
knows one form of each. Pieces that are not understood stay pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

Item = dict[str, Any]

_STREAM_KEYS = frozenset({"items", "count", "end", "return"})
"""What capture records of a generator."""


class Length(NamedTuple):
    """How much of a stream was recorded."""

    kept: int
    total: int


def length_of(outputs: Any) -> Length | None:
    """How many items of a generator were recorded, and how many there were; None if it is no such output."""
    if (
        not isinstance(outputs, dict)
        or not outputs.keys() <= _STREAM_KEYS
        or not isinstance(outputs.get("items"), list)
    ):
        return None
    count = outputs.get("count")
    return Length(len(outputs["items"]), count) if isinstance(count, int) else None


def put_together(outputs: Any) -> Any:
    """What a model call gave, as one value. Anything that is no stream, or not understood, as it is.

    A stream of which not everything was recorded becomes None: half a reply must not pass for one.
    """
    length = length_of(outputs)
    if length is not None:
        if outputs.get("return") is not None:
            return put_together(outputs["return"])
        return None if length.kept < length.total else _joined(outputs["items"], outputs)
    return (
        _joined(outputs, outputs)
        if isinstance(outputs, list) and len(outputs) > 1 and _are_pieces(outputs)
        else outputs
    )


def _joined(items: list[Any], otherwise: Any) -> Any:
    texts = [item for item in items if isinstance(item, str)]
    if texts and all(item is None or isinstance(item, str) for item in items):  # a chunk without text gives None
        return "".join(texts)
    items = [_chunk(item) for item in items]
    if not items or not all(isinstance(item, dict) for item in items):
        return otherwise
    if len(items) == 1 and not _are_pieces(items):
        return items[0]
    join = _way_of(items)
    return otherwise if join is None else join(items)


def _chunk(item: Any) -> Any:
    """LangGraph streams pairs of a chunk and what is known about it."""
    is_pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], dict) and isinstance(item[1], dict)
    return item[0] if is_pair else item


def _are_pieces(items: list[Any]) -> bool:
    """Whether a list that a function returned is a stream that it collected."""
    first = _chunk(items[0])
    if not isinstance(first, dict):
        return False
    return _way_of([item for item in map(_chunk, items) if isinstance(item, dict)]) not in (None, _texts, _sglang)


def _way_of(items: list[Item]) -> Callable[[list[Item]], Any] | None:
    kinds = {kind for item in items if isinstance(kind := item.get("type"), str)}
    if "AIMessageChunk" in kinds:
        return _langchain
    if not kinds.isdisjoint({"message_start", "content_block_delta", "content_block_start"}):
        return _anthropic
    if any(kind.startswith("response.") for kind in kinds):
        return _response
    if "chunk" in kinds and any(isinstance(item.get("chunk"), dict) for item in items):
        return _chat_events
    if any(_dicts(item.get("candidates")) for item in items):
        return _gemini
    choices = [choice for item in items for choice in _dicts(item.get("choices"))]
    if any(isinstance(choice.get("delta"), dict) for choice in choices):
        return _chat
    if choices and any(item.get("object") == "text_completion" for item in items):
        return _completion
    if any(isinstance(item.get("token"), dict) and "text" in item["token"] for item in items):
        return _tgi
    if all(isinstance(item.get("meta_info"), dict) and ("text" in item or "output_ids" in item) for item in items):
        return _sglang
    return _texts if all(_text_place(item) is not None for item in items) else None


def _dicts(value: Any) -> list[Item]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _add(whole: Item, name: str, piece: Any) -> None:
    if isinstance(piece, str):
        whole[name] = (whole.get(name) or "") + piece


def _newest(items: list[Item], *names: str) -> Item:
    return {name: item[name] for item in items for name in names if item.get(name) is not None}


def _chat(items: list[Item]) -> Item:
    """Chunks of OpenAI's chat completions, with what servers add to them: reasoning, token ids."""
    choices: dict[int, Item] = {}
    for choice in (choice for item in items for choice in _dicts(item.get("choices"))):
        index = choice.get("index") or 0
        whole = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            _add(whole["message"], name, delta.get(name))
        _add_calls(whole["message"], delta.get("tool_calls"))
        if choice.get("finish_reason") is not None:
            whole["finish_reason"] = choice["finish_reason"]
        logprobs = choice.get("logprobs")
        for part in _dicts(logprobs.get("content")) if isinstance(logprobs, dict) else ():
            whole.setdefault("logprobs", {"content": []})["content"].append(part)
        if isinstance(choice.get("token_ids"), list):
            whole["token_ids"] = [*whole.get("token_ids", ()), *choice["token_ids"]]
    about = _newest(items, "id", "model", "usage", "prompt_token_ids")
    return {**about, "object": "chat.completion", "choices": [choices[index] for index in sorted(choices)]}


def _chat_events(items: list[Item]) -> Item:
    """Events of the stream helper of OpenAI's SDK: the chunks, and between them what it makes of those."""
    return _chat([item["chunk"] for item in items if isinstance(item.get("chunk"), dict)])


def _add_calls(message: Item, pieces: Any) -> None:
    calls = message.setdefault("tool_calls", []) if _dicts(pieces) else []
    for piece in _dicts(pieces):
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
                _add(call["function"], name, function.get(name))


def _completion(items: list[Item]) -> Item:
    """Chunks of OpenAI's completions."""
    choices: dict[int, Item] = {}
    for choice in (choice for item in items for choice in _dicts(item.get("choices"))):
        whole = choices.setdefault(choice.get("index") or 0, {"text": ""})
        _add(whole, "text", choice.get("text"))
        if choice.get("finish_reason") is not None:
            whole["finish_reason"] = choice["finish_reason"]
        if isinstance(choice.get("token_ids"), list):
            whole["token_ids"] = [*whole.get("token_ids", ()), *choice["token_ids"]]
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("token_logprobs"), list):
            token_logprobs = whole.setdefault("logprobs", {"token_logprobs": []})["token_logprobs"]
            token_logprobs += logprobs["token_logprobs"]
        if isinstance(choice.get("prompt_token_ids"), list):  # vLLM has them in the choice, once
            whole["prompt_token_ids"] = choice["prompt_token_ids"]
    about = _newest(items, "id", "model", "usage", "prompt_token_ids")
    return {**about, "choices": [choices[index] for index in sorted(choices)]}


def _anthropic(items: list[Item]) -> Item:
    """Events of Anthropic's messages; those that its helper adds repeat what the others say."""
    message: Item = {"role": "assistant", "content": []}
    blocks: dict[int, Item] = {}
    for item in items:
        kind, index = item.get("type"), item.get("index")
        if kind == "message_start" and isinstance(item.get("message"), dict):
            message = {**item["message"], "content": []}
        elif kind == "content_block_start" and isinstance(item.get("content_block"), dict):
            blocks[index or 0] = dict(item["content_block"])
        elif kind == "content_block_delta" and isinstance(item.get("delta"), dict):
            block, delta = blocks.setdefault(index or 0, {"type": "text"}), item["delta"]
            for name in ("text", "thinking", "partial_json"):
                _add(block, name, delta.get(name))
        elif kind == "message_delta":
            if isinstance(item.get("delta"), dict):
                message.update(_newest([item["delta"]], "stop_reason", "stop_sequence"))
            if isinstance(item.get("usage"), dict):
                usage = message.get("usage")
                counts = {name: value for name, value in item["usage"].items() if value is not None}
                message["usage"] = {**(usage if isinstance(usage, dict) else {}), **counts}
    for index in sorted(blocks):
        block = blocks[index]
        if "partial_json" in block:
            block["input"] = block.pop("partial_json")
        message["content"].append(block)
    return message


def _gemini(items: list[Item]) -> Item:
    """Answers of Gemini's `streamGenerateContent`: each has the next parts, the last one also the usage."""
    candidates: dict[int, Item] = {}
    for candidate in (each for item in items for each in _dicts(item.get("candidates"))):
        index = candidate.get("index") or 0
        whole = candidates.setdefault(index, {"content": {"role": "model", "parts": []}})
        whole.update((name, value) for name, value in candidate.items() if name != "content" and value is not None)
        content = candidate.get("content")
        parts = whole["content"]["parts"]
        for part in _dicts(content.get("parts")) if isinstance(content, dict) else ():
            is_text = isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
            last = parts[-1] if parts else {}
            if is_text and isinstance(last.get("text"), str) and last.get("thought") == part.get("thought"):
                parts[-1] = {**last, "text": last["text"] + part["text"]}
            else:
                parts.append(part)
    names = [name for item in items for name in item if name != "candidates"]
    return {"candidates": [candidates[index] for index in sorted(candidates)], **_newest(items, *names)}


def _response(items: list[Item]) -> Item:
    """Events of OpenAI's responses: the last ones repeat all of it; if they never came, what the others said."""
    for item in reversed(items):
        whole = item.get("response")
        if isinstance(whole, dict) and whole.get("output"):
            return whole
    outputs: dict[int, Item] = {}
    for item in items:
        kind, index = item.get("type"), item.get("output_index") or 0
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(item.get("item"), dict):
            outputs[index] = dict(item["item"])
        elif kind == "response.output_text.delta":
            part = outputs.setdefault(index, {"type": "message", "role": "assistant"})
            if not _dicts(part.get("content")):
                part["content"] = [{"type": "output_text", "text": ""}]
            _add(part["content"][0], "text", item.get("delta"))
        elif kind == "response.function_call_arguments.delta":
            _add(outputs.setdefault(index, {"type": "function_call"}), "arguments", item.get("delta"))
    return {"object": "response", "output": [outputs[index] for index in sorted(outputs)]}


def _langchain(items: list[Item]) -> Item:
    """Chunks of LangChain's AI messages."""
    whole: Item = {"type": "ai", "content": "", "tool_calls": []}
    parts: list[Any] = []
    calls: list[Item] = []
    usage: Item = {}
    for item in items:
        if item.get("type") not in ("AIMessageChunk", "ai"):
            continue
        content = item.get("content")
        parts += content if isinstance(content, list) else [content] if isinstance(content, str) and content else []
        for piece in _dicts(item.get("tool_call_chunks")):
            index = piece.get("index")
            call = next((each for each in calls if index is not None and each["index"] == index), None)
            if call is None:
                call = {"index": index, "name": "", "args": ""}
                calls.append(call)
            call["id"] = piece.get("id") or call.get("id")
            _add(call, "name", piece.get("name"))
            _add(call, "args", piece.get("args"))
        counts = item.get("usage_metadata")
        usage = _sum(usage, counts) if isinstance(counts, dict) else usage
        metadata = item.get("response_metadata")
        if isinstance(metadata, dict):
            whole["response_metadata"] = {**whole.get("response_metadata", {}), **metadata}
        more = item.get("additional_kwargs")
        if isinstance(more, dict):
            _add(whole, "reasoning_content", more.get("reasoning_content"))
    texts = all(isinstance(part, str) for part in parts)
    whole["content"] = "".join(parts) if texts else [part for part in parts if not _is_piece_of_call(part)]
    whole["tool_calls"] = [{name: call[name] for name in ("id", "name", "args")} for call in calls]
    return {**whole, "usage_metadata": usage} if usage else whole


def _is_piece_of_call(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("tool_use", "input_json_delta", "tool_call_chunk")


def _sum(before: Item, counts: Item) -> Item:
    total = dict(before)
    for name, value in counts.items():
        if isinstance(value, dict):
            inside = total.get(name)
            total[name] = _sum(inside if isinstance(inside, dict) else {}, value)
        elif isinstance(value, int):
            total[name] = total.get(name, 0) + value
    return total


def _tgi(items: list[Item]) -> Item:
    """Events of text-generation-inference: a token each, and with the last one what all of them are."""
    tokens = [item["token"] for item in items if isinstance(item.get("token"), dict)]
    last = items[-1]
    text = last.get("generated_text")
    if not isinstance(text, str):
        text = "".join(
            token["text"] for token in tokens if isinstance(token.get("text"), str) and not token.get("special")
        )
    details = last.get("details")
    return {"generated_text": text, "details": {**(details if isinstance(details, dict) else {}), "tokens": tokens}}


def _sglang(items: list[Item]) -> Any:
    """Events of SGLang's `/generate`: each has all so far, or what is new. Of several answers, a list as without a
    stream."""
    answers: dict[int, list[Item]] = {}
    for item in items:
        answers.setdefault(item.get("index") or 0, []).append(item)
    wholes = [_sglang_answer(answers[index]) for index in sorted(answers)]
    return wholes[0] if len(wholes) == 1 else wholes


def _sglang_answer(items: list[Item]) -> Item:
    """Servers differ in whether text, ids and logprobs grow; `completion_tokens` always counts all tokens so far."""
    last, info = dict(items[-1]), dict(items[-1]["meta_info"])
    count, last_has_all = info.get("completion_tokens"), False
    for holder, places, name in (
        (last, items, "output_ids"),
        (info, [item["meta_info"] for item in items], "output_token_logprobs"),
    ):
        lists = [place[name] for place in places if isinstance(place.get(name), list)]
        if lists and len(lists[-1]) == count:
            last_has_all = True
        elif sum(map(len, lists)) == count:
            holder[name] = [each for values in lists for each in values]
    texts = [item["text"] for item in items if isinstance(item.get("text"), str)]
    grows = all(after.startswith(before) for before, after in pairwise(texts))
    if texts and not last_has_all and not (grows and len(texts[-1]) > len(texts[0])):
        last["text"] = "".join(texts)
    return {**last, "meta_info": info}


def _text_place(item: Item) -> Item | None:
    """The dict in which vLLM and SGLang have the text of one completion."""
    outputs = item.get("outputs")
    place = outputs[0] if isinstance(outputs, list) and len(outputs) == 1 else item
    return place if isinstance(place, dict) and isinstance(place.get("text"), str) else None


def _texts(items: list[Item]) -> Item:
    """Outputs of vLLM and SGLang: each has all of the text so far, or each what is new."""
    places = [place for place in map(_text_place, items) if place is not None]
    grows = all(after["text"].startswith(before["text"]) for before, after in pairwise(places))
    if grows and len(places[-1]["text"]) >= len(places[0]["text"]):
        return items[-1]
    whole = {**places[-1], "text": "".join(place["text"] for place in places)}
    for name in ("token_ids", "output_ids", "logprobs"):
        lists = [place[name] for place in places if isinstance(place.get(name), list)]
        if lists:
            whole[name] = [each for values in lists for each in values]
    about = {name: value for name, value in items[0].items() if name not in ("outputs", "text")}
    return {**about, "outputs": [whole]} if "outputs" in items[-1] else {**about, **whole}
