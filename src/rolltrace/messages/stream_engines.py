"""Streams of inference engines: vLLM, SGLang, text-generation-inference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rolltrace.messages.message import Json
from rolltrace.messages.stream_openai import position


def join_tgi(items: list[Json]) -> Json:
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


def join_sglang(items: list[Json]) -> Any:
    """Events of SGLang's `/generate`: each has all so far, or what is new. Of several answers, a list as without a
    stream."""
    answers: dict[int, list[Json]] = {}
    for item in items:
        answers.setdefault(position(item.get("index")), []).append(item)
    wholes = [_join_answer(answers[index]) for index in sorted(answers)]
    return wholes[0] if len(wholes) == 1 else wholes


def _join_answer(items: list[Json]) -> Json:
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


def text_place(item: Json) -> Json | None:
    """The dict in which vLLM and SGLang have the text of one completion."""
    outputs = item.get("outputs")
    place = outputs[0] if isinstance(outputs, list) and len(outputs) == 1 else item
    return place if isinstance(place, dict) and isinstance(place.get("text"), str) else None


def join_texts(items: list[Json]) -> Json:
    """Outputs of vLLM and SGLang: each has all of the text so far, or each what is new."""
    places = [place for place in map(text_place, items) if place is not None]
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
