"""Recorded values are anybody's: no shape of them makes a reader fail."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from rolltrace.messages import (
    EndedOp,
    Transcript,
    fingerprint,
    join_stream,
    read_messages,
    read_prompt,
    read_replies,
    read_response_text,
    read_tool_result,
    take_images,
)
from rolltrace.record import Cut, Image, Opaque, Snapshotter, decode_value, to_json
from tests.nightly import nightly

NAMES = [
    "role", "content", "type", "parts", "text", "choices", "message", "messages", "tool_calls", "function", "name",
    "arguments", "id", "call_id", "output", "outputs", "input", "system", "prompt", "items", "count", "end", "delta",
    "index", "reasoning", "reasoning_content", "summary", "functionCall", "functionResponse", "response", "args",
    "thinking", "image_url", "url", "source", "data", "media_type", "inlineData", "mimeType", "candidates", "meta_info",
    "token", "previous_response_id", "config", "system_instruction", "$image", "additional_kwargs", "kwargs",
]  # fmt: skip
WORDS = [
    "user", "assistant", "tool", "system", "model", "human", "ai", "function_call", "function_call_output", "reasoning",
    "tool_use", "tool_result", "text", "thinking", "AIMessageChunk", "message_start", "content_block_delta",
    "response.output_text.delta", "constructor", "<think>x</think>y", '<tool_call>{"name": 1}</tool_call>', '{"a": 1',
    "<tool_response>\n4\n</tool_response>", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|start|>assistant<|channel|>analysis<|message|>", "data:image/png;base64,AAAA", "image/png", "half \ud83d", "",
]  # fmt: skip
LEAVES = st.one_of(
    st.sampled_from(WORDS), st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=3),
    st.just(Image("0" * 32, "RGB", (1, 1), None)), st.just(Opaque("x", {})), st.just(Cut("bytes", 9, "start")),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.integers(0, 3)), inner, max_size=5),
        st.lists(st.fixed_dictionaries({"role": st.sampled_from(WORDS), "content": inner}), min_size=1, max_size=3),
    ),
    max_leaves=25,
)


@settings(max_examples=nightly(2000, 100), deadline=None)
@given(VALUES)
def test_readers_take_any_value(value: Any) -> None:
    for plain in (value, to_json(value)):
        taken = take_images(plain).value
        join_stream(taken)
        said = [*(read_messages(taken) or ()), *(read_prompt(taken, taken) or ()), *read_replies(taken)]
        for message in [*said, read_tool_result("tool", taken)]:
            fingerprint(message)
            message.to_chat()
            msgspec.msgpack.encode(message)


@settings(max_examples=nightly(1000, 50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["llm", "tool", "env", "other"]), VALUES, VALUES), max_size=4), st.booleans())
def test_a_transcript_takes_any_op(ops: list[tuple[str, Any, Any]], raw: bool) -> None:
    transcript, take, count = Transcript(), Snapshotter().take, 0
    for number, (kind, inputs, outputs) in enumerate(ops):
        if raw:
            inputs, outputs = (Raw(take(_without_markers(each))) for each in (inputs, outputs))
        op = EndedOp(
            op_id=number + 1, kind=kind, name="x", start_ns=number, end_ns=number, inputs=inputs, outputs=outputs
        )
        rows = [*transcript.op_ended(op).rows, *transcript.step_taken(inputs if not raw else None, "A").rows]
        fresh = [row.seq for row in rows if row.seq >= count]
        assert fresh == list(range(count, count + len(fresh)))
        count += len(fresh)
        transcript = Transcript(transcript.save())
    transcript.finish()


def _without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_markers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_markers(item) for item in value]
    return value if isinstance(value, str | int | float | bool | bytes | None) else None


@settings(max_examples=nightly(1000, 100), deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "<|im_end|>", "<|eot_id|>", "\n", "<think>", "</think>", "hi"]), max_size=8))
def test_any_text_is_read_as_a_reply(pieces: list[str]) -> None:
    assert read_response_text("".join(pieces))


def test_decoded_and_encoded_prompts_make_the_same_rows() -> None:
    prompt = {"messages": [{"role": "user", "content": "q"}], "n": 1 << 70}
    encoded = Snapshotter().take(prompt)
    first, *others = (
        Transcript().op_ended(EndedOp(op_id=1, kind="llm", inputs=inputs, outputs="a")).rows
        for inputs in (prompt, Raw(encoded), decode_value(encoded))
    )
    assert others == [first, first]
