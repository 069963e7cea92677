"""One reply from the pieces in which it came: chunks and events of a stream, joined.

The result has the form that the same service gives without a stream, so whoever reads replies, tokens and usage knows
one form of each. Pieces that are not understood stay pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from rolltrace.messages.message import Json, dicts

_STREAM_KEYS = frozenset({"items", "count", "end", "return"})
"""What capture records of a generator."""
_ANTHROPIC_EVENTS = frozenset({"message_start", "content_block_delta", "content_block_start"})
_RESPONSE_DELTAS = {
    "response.output_text.delta": ({"type": "message", "role": "assistant"}, "content", "output_text"),
    "response.reasoning_summary_text.delta": ({"type": "reasoning"}, "summary", "summary_text"),
    "response.reasoning_text.delta": ({"type": "reasoning"}, "summary", "summary_text"),
}
"""Event -> the item that it belongs to, and where and as what that has the text."""
_Join = Callable[[list[Json]], Any]


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
    if join is _join_gemini:  # several answers look the same, but each of them says why it ended
        return not any(newest(dicts(item.get("candidates")), "finish_reason", "finishReason") for item in chunks[:-1])
    return join not in (None, _join_texts, _join_sglang)


def _choose(items: list[Json]) -> _Join | None:
    kinds = {kind for item in items if isinstance(kind := item.get("type"), str)}
    if "AIMessageChunk" in kinds:
        return _join_langchain
    if not kinds.isdisjoint(_ANTHROPIC_EVENTS):
        return _join_anthropic
    if any(kind.startswith("response.") for kind in kinds):
        return _join_response
    if "chunk" in kinds and any(isinstance(item.get("chunk"), dict) for item in items):
        return _join_chat_events
    choices = [choice for item in items for choice in dicts(item.get("choices"))]
    if any(isinstance(choice.get("delta"), dict) for choice in choices):
        return _join_chat
    if choices and any(item.get("object") == "text_completion" for item in items):
        return _join_completion
    if any(isinstance(item.get("candidates"), list) for item in items):
        return _join_gemini
    if any(isinstance(item.get("token"), dict) and "text" in item["token"] for item in items):
        return _join_tgi
    if all(isinstance(item.get("meta_info"), dict) and ("text" in item or "output_ids" in item) for item in items):
        return _join_sglang
    return _join_texts if all(_text_place(item) is not None for item in items) else None


def newest(items: list[Json], *names: str) -> Json:
    """The last value that any of the items has under each name."""
    return {name: item[name] for item in items for name in names if item.get(name) is not None}


def _position(item: Json, name: str = "index") -> int:
    """Which of several answers or parts a piece belongs to; the first if it does not say."""
    value = item.get(name)
    return value if isinstance(value, int) else 0


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _add_text(whole: Json, piece: Json, *names: str) -> None:
    """Append what a piece has under these names to the texts under the same names."""
    for name in names:
        if isinstance(piece.get(name), str):
            whole[name] = (whole.get(name) or "") + piece[name]


def _in_order(by_index: dict[int, Json]) -> list[Json]:
    return [by_index[index] for index in sorted(by_index)]


def _join_chat(items: list[Json]) -> Json:
    """Chunks of chat completions, with what servers add to them: reasoning, token ids."""
    choices: dict[int, Json] = {}
    for choice in (choice for item in items for choice in dicts(item.get("choices"))):
        index, delta = _position(choice), _dict(choice.get("delta"))
        whole = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
        message = whole["message"]
        _add_text(message, delta, "content", "reasoning_content", "reasoning", "refusal")
        for piece in dicts(delta.get("tool_calls")):
            fresh = {"index": piece.get("index"), "type": "function", "function": {"name": "", "arguments": ""}}
            call = _find_call(message.setdefault("tool_calls", []), fresh)
            if piece.get("id"):
                call["id"] = piece["id"]
            _add_text(call["function"], _dict(piece.get("function")), "name", "arguments")
        _add_tokens(whole, choice, "content")
    about = newest(items, "id", "model", "usage", "prompt_token_ids")
    return {**about, "object": "chat.completion", "choices": _in_order(choices)}


def _join_chat_events(items: list[Json]) -> Json:
    """Events of the stream helper of OpenAI's SDK: the chunks, and between them what it makes of those."""
    return _join_chat([item["chunk"] for item in items if isinstance(item.get("chunk"), dict)])


def _join_completion(items: list[Json]) -> Json:
    """Chunks of completions."""
    choices: dict[int, Json] = {}
    for choice in (choice for item in items for choice in dicts(item.get("choices"))):
        whole = choices.setdefault(_position(choice), {"text": ""})
        _add_text(whole, choice, "text")
        _add_tokens(whole, choice, "token_logprobs")
        whole.update(newest([choice], "prompt_token_ids"))  # vLLM has them in the choice, once
    return {**newest(items, "id", "model", "usage", "prompt_token_ids"), "choices": _in_order(choices)}


def _add_tokens(whole: Json, choice: Json, logprobs_name: str) -> None:
    whole.update(newest([choice], "finish_reason"))
    if isinstance(choice.get("token_ids"), list):
        whole.setdefault("token_ids", []).extend(choice["token_ids"])
    logprobs = _dict(choice.get("logprobs")).get(logprobs_name)
    if isinstance(logprobs, list) and (logprobs or logprobs_name != "content"):
        whole.setdefault("logprobs", {logprobs_name: []})[logprobs_name].extend(logprobs)


def _find_call(calls: list[Json], fresh: Json) -> Json:
    """The call with the index of a fresh one, which is added if there is none."""
    index = fresh["index"]
    call = next((each for each in calls if index is not None and each["index"] == index), None)
    if call is None:
        calls.append(fresh)
    return fresh if call is None else call


def _join_response(items: list[Json]) -> Json:
    """Events of responses: the last ones repeat all of it; if they never came, what the others said."""
    for item in reversed(items):
        whole = item.get("response")
        if isinstance(whole, dict) and whole.get("output"):
            return whole
    outputs: dict[int, Json] = {}
    for item in items:
        kind, index = item.get("type"), _position(item, "output_index")
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(item.get("item"), dict):
            outputs[index] = dict(item["item"])
        elif kind == "response.function_call_arguments.delta":
            call = outputs.setdefault(index, {"type": "function_call"})
            _add_text(call, {"arguments": item.get("delta")}, "arguments")
        elif isinstance(kind, str) and kind in _RESPONSE_DELTAS:
            empty, place, text_type = _RESPONSE_DELTAS[kind]
            part = outputs.setdefault(index, dict(empty))
            if not dicts(part.get(place)):
                part[place] = [{"type": text_type, "text": ""}]
            _add_text(part[place][0], {"text": item.get("delta")}, "text")
    return {"object": "response", "output": _in_order(outputs)}


def _join_anthropic(items: list[Json]) -> Json:
    """Events of messages; those that the SDK's helper adds repeat what the others say."""
    message: Json = {"role": "assistant", "content": []}
    blocks: dict[int, Json] = {}
    for item in items:
        kind, index = item.get("type"), _position(item)
        if kind == "message_start" and isinstance(item.get("message"), dict):
            message = {**item["message"], "content": []}
        elif kind == "content_block_start" and isinstance(item.get("content_block"), dict):
            blocks[index] = dict(item["content_block"])
        elif kind == "content_block_delta" and isinstance(item.get("delta"), dict):
            _add_text(blocks.setdefault(index, {"type": "text"}), item["delta"], "text", "thinking", "partial_json")
        elif kind == "message_delta":
            message.update(newest([_dict(item.get("delta"))], "stop_reason", "stop_sequence"))
            if isinstance(item.get("usage"), dict):
                counts = {name: value for name, value in item["usage"].items() if value is not None}
                message["usage"] = {**_dict(message.get("usage")), **counts}
    for block in _in_order(blocks):
        if "partial_json" in block:
            block["input"] = block.pop("partial_json")
        message["content"].append(block)
    return message


def _join_gemini(items: list[Json]) -> Json:
    """Chunks of `generate_content`: parts that follow each other, and the usage of all so far."""
    candidates: dict[int, Json] = {}
    for candidate in (candidate for item in items for candidate in dicts(item.get("candidates"))):
        whole = candidates.setdefault(_position(candidate), {"content": {"role": "model", "parts": []}})
        parts: list[Json] = whole["content"]["parts"]
        for part in dicts(_dict(candidate.get("content")).get("parts")):
            are_texts = bool(parts) and isinstance(parts[-1].get("text"), str) and isinstance(part.get("text"), str)
            if are_texts and parts[-1].get("thought") == part.get("thought"):
                parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
            else:
                parts.append(part)
        whole.update(newest([candidate], "finish_reason", "finishReason"))
    names = ("usage_metadata", "usageMetadata", "model_version", "modelVersion", "response_id", "responseId")
    return {**newest(items, *names), "candidates": _in_order(candidates)}


def _join_langchain(items: list[Json]) -> Json:
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
        for piece in dicts(item.get("tool_call_chunks")):
            call = _find_call(calls, {"index": piece.get("index"), "name": "", "args": ""})
            call["id"] = piece.get("id") or call.get("id")
            _add_text(call, piece, "name", "args")
        usage = _sum_counts(usage, _dict(item.get("usage_metadata")))
        if isinstance(item.get("response_metadata"), dict):
            whole["response_metadata"] = {**whole.get("response_metadata", {}), **item["response_metadata"]}
        _add_text(whole, _dict(item.get("additional_kwargs")), "reasoning_content")
    texts = all(isinstance(part, str) for part in parts)
    whole["content"] = "".join(parts) if texts else [part for part in parts if not _is_piece_of_call(part)]
    whole["tool_calls"] = [{name: call[name] for name in ("id", "name", "args")} for call in calls]
    return {**whole, "usage_metadata": usage} if usage else whole


def _is_piece_of_call(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("tool_use", "input_json_delta", "tool_call_chunk")


def _sum_counts(before: Json, counts: Json) -> Json:
    total = dict(before)
    for name, value in counts.items():
        if isinstance(value, dict):
            total[name] = _sum_counts(_dict(total.get(name)), value)
        elif isinstance(value, int):
            total[name] = total.get(name, 0) + value
    return total


def _join_tgi(items: list[Json]) -> Json:
    """Events of text-generation-inference: a token each, and with the last one what all of them are."""
    tokens = [item["token"] for item in items if isinstance(item.get("token"), dict)]
    text = items[-1].get("generated_text")
    if not isinstance(text, str):
        text = "".join(each["text"] for each in tokens if isinstance(each.get("text"), str) and not each.get("special"))
    return {"generated_text": text, "details": {**_dict(items[-1].get("details")), "tokens": tokens}}


def _join_sglang(items: list[Json]) -> Any:
    """Events of SGLang's `/generate`: each has all so far, or what is new. Of several answers, a list as without a
    stream."""
    answers: dict[int, list[Json]] = {}
    for item in items:
        answers.setdefault(_position(item), []).append(item)
    wholes = [_join_sglang_answer(answers[index]) for index in sorted(answers)]
    return wholes[0] if len(wholes) == 1 else wholes


def _join_sglang_answer(items: list[Json]) -> Json:
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
    if texts and not last_has_all and not (_grow(texts) and len(texts[-1]) > len(texts[0])):
        last["text"] = "".join(texts)
    return {**last, "meta_info": info}


def _grow(texts: list[str]) -> bool:
    """Whether each text has all of the one before it."""
    return all(after.startswith(before) for before, after in pairwise(texts))


def _text_place(item: Json) -> Json | None:
    """The dict in which vLLM and SGLang have the text of one completion."""
    outputs = item.get("outputs")
    place = outputs[0] if isinstance(outputs, list) and len(outputs) == 1 else item
    return place if isinstance(place, dict) and isinstance(place.get("text"), str) else None


def _join_texts(items: list[Json]) -> Json:
    """Outputs of vLLM and SGLang: each has all of the text so far, or each what is new."""
    places = [place for place in map(_text_place, items) if place is not None]
    texts = [place["text"] for place in places]
    if _grow(texts) and len(texts[-1]) >= len(texts[0]):
        return items[-1]
    whole = {**places[-1], "text": "".join(texts)}
    for name in ("token_ids", "output_ids", "logprobs"):
        lists = [place[name] for place in places if isinstance(place.get(name), list)]
        if lists:
            whole[name] = [each for values in lists for each in values]
    about = {name: value for name, value in items[0].items() if name not in ("outputs", "text")}
    return {**about, "outputs": [whole]} if "outputs" in items[-1] else {**about, **whole}
