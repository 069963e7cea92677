"""What the proxy asks for beyond what the agent asked is taken out of the answer again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolltrace.proxy.enrich import StreamEditor, asks_more, takes_out

CHOICE = {"index": 0, "delta": {"content": "hi"}, "logprobs": {"content": []}, "token_ids": [1, 2]}
CHUNK = {"id": "c", "choices": [CHOICE], "prompt_token_ids": [3], "usage": None}
USAGE = {"id": "c", "choices": [], "usage": {"prompt_tokens": 1}}


def events(*told: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in told) + b"data: [DONE]\n\n"


def read(stream: bytes) -> list[Any]:
    return [json.loads(line[5:]) for line in stream.split(b"\n\n") if line.startswith(b"data: {")]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_is_what_it_would_have_been(size: int) -> None:
    editor, stream = StreamEditor({"stream": True}), events(CHUNK, USAGE)
    seen = b"".join(editor.edited(stream[at : at + size]) for at in range(0, len(stream), size)) + editor.rest()
    shown = {"index": 0, "delta": {"content": "hi"}, "logprobs": None}
    assert read(seen) == [{"id": "c", "choices": [shown]}]
    assert seen.endswith(b"data: [DONE]\n\n")


def test_what_the_agent_asked_for_itself_stays_byte_for_byte() -> None:
    asked = {"stream": True, "return_token_ids": True, "logprobs": True, "stream_options": {"include_usage": True}}
    stream = events(CHUNK, USAGE) + b": a comment\n\n"
    assert StreamEditor(asked).edited(stream) == stream
    assert takes_out({"return_token_ids": True, "logprobs": True}, CHUNK) == CHUNK


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("openai.chat.completions", {"return_token_ids": True, "logprobs": True}),
        ("openai.completions", {"return_token_ids": True, "logprobs": 1}),
        ("sglang.generate", {"return_logprob": True}),
        ("openai.responses", {}),
        ("anthropic.messages", {}),
    ],
)
def test_only_servers_that_know_it_are_asked(name: str, more: dict[str, Any]) -> None:
    assert asks_more(name, {"model": "m"}) == {"model": "m", **more}


def test_usage_of_a_stream_is_asked_for_beside_other_options() -> None:
    asked = {"stream": True, "stream_options": {"x": 1}}
    assert asks_more("openai.chat.completions", asked)["stream_options"] == {"x": 1, "include_usage": True}
    assert asked == {"stream": True, "stream_options": {"x": 1}}


def test_sglangs_logprobs_are_taken_out() -> None:
    answer = {"text": "hi", "meta_info": {"id": "r", "output_token_logprobs": [[-0.1, 5, None]]}}
    assert takes_out({}, answer) == {"text": "hi", "meta_info": {"id": "r"}}
    assert takes_out({}, [answer, answer]) == [{"text": "hi", "meta_info": {"id": "r"}}] * 2
    assert takes_out({"return_logprob": True}, answer) == answer
