"""What the attributes of a span say, in each vocabulary."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolltrace.collect.conventions import read
from rolltrace.collect.otlp import ReceivedSpan, SpanEvent

CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def op(name: str = "x", events: list[SpanEvent] | None = None, **attributes: Any) -> Any:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return read(ReceivedSpan(b"t" * 16, b"s" * 8, b"", name, 1, 2, named, {}, events or []))


def test_older_traceloop_spreads_messages_over_attributes() -> None:
    read = op(
        "openai.chat", llm__request__type="chat", gen_ai__prompt__0__role="user", gen_ai__prompt__0__content="hi",
        gen_ai__completion__0__role="assistant", gen_ai__completion__0__tool_calls__0__id="c",
        gen_ai__completion__0__tool_calls__0__name="add", gen_ai__completion__0__tool_calls__0__arguments='{"a": 1}',
        gen_ai__usage__prompt_tokens=3, gen_ai__usage__completion_tokens=4, gen_ai__request__model="m",
    )  # fmt: skip
    assert (read.kind, read.inputs["messages"], read.inputs["model"]) == (
        "llm",
        [{"role": "user", "content": "hi"}],
        "m",
    )
    assert read.outputs["tool_calls"] == [CALL]
    assert read.outputs["usage"] == {"prompt_tokens": 3, "completion_tokens": 4}


def test_older_events_of_the_genai_conventions_are_messages() -> None:
    events = [
        SpanEvent(1, "gen_ai.user.message", {"content": "hi"}),
        SpanEvent(2, "gen_ai.choice", {"finish_reason": "stop", "message": json.dumps({"content": "ho"})}),
    ]
    read = op("chat m", events, gen_ai__operation__name="chat", gen_ai__response__finish_reasons=["stop"])
    assert read.inputs["messages"] == [{"role": "user", "content": "hi"}]
    assert (read.outputs["content"], read.outputs["finish_reason"]) == ("ho", "stop")


def test_results_of_tools_among_the_parts_are_messages_of_their_own() -> None:
    parts = [{"type": "tool_call_response", "id": "c", "result": "2"}, {"type": "text", "content": "and?"}]
    messages = json.dumps([{"role": "user", "parts": parts}])
    read = op(gen_ai__operation__name="chat", gen_ai__input__messages=messages)
    assert read.inputs["messages"] == [
        {"role": "tool", "tool_call_id": "c", "content": "2"}, {"role": "user", "content": "and?"},
    ]  # fmt: skip


def test_claude_code_spans_are_model_and_tool_calls() -> None:
    call = op("claude_code.llm_request", model="claude", input_tokens=5, output_tokens=6, cache_read_tokens=4)
    assert (call.kind, call.inputs["model"]) == ("llm", "claude")
    assert call.outputs["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "cached_tokens": 4}
    tool = op("claude_code.tool", [SpanEvent(1, "tool.output", {"output": "ok"})], tool_name="Bash", full_command="ls")
    assert (tool.kind, tool.name, tool.inputs, tool.outputs) == ("tool", "Bash", "ls", {"output": "ok"})
    assert op("claude_code.interaction", user_prompt="do").kind == "other"


def test_openinference_and_traceloop_tools_have_inputs_and_outputs() -> None:
    tool = op("add", openinference__span__kind="TOOL", tool__name="add", input__value='{"a": 1}', output__value="2")
    assert (tool.kind, tool.name, tool.inputs, tool.outputs) == ("tool", "add", {"a": 1}, "2")
    tool = op("x.tool", traceloop__span__kind="tool", traceloop__entity__name="add", traceloop__entity__input="{}")
    assert (tool.kind, tool.name, tool.inputs) == ("tool", "add", {})


def test_what_no_vocabulary_explains_keeps_its_attributes() -> None:
    read = op("GET", http__request__method="GET", rl__step=3)
    assert (read.kind, read.inputs, read.outputs) == ("other", {"http.request.method": "GET"}, None)


@pytest.mark.parametrize(
    "value", [None, True, -1, 0.5, "x", "{", "[5]", '[{"parts": 5}]', [], [None], [{"parts": [1]}], {}]
)
def test_values_of_the_wrong_kind_do_no_harm(value: Any) -> None:
    for operation in ("chat", "execute_tool", "invoke_agent"):
        read = op(
            gen_ai__operation__name=operation, gen_ai__input__messages=value, gen_ai__output__messages=value,
            gen_ai__system_instructions=value, input__value=value, output__value=value,
            llm__invocation_parameters=value,
            gen_ai__response__finish_reasons=value, gen_ai__tool__name=value, gen_ai__tool__definitions=value,
            gen_ai__tool__call__arguments=value, gen_ai__usage__input_tokens=value, gen_ai__response__id=value,
            llm__input_messages__0__message__tool_calls__0__tool_call__id=value, gen_ai__prompt__999999__role=value,
        )  # fmt: skip
        assert read.kind in ("llm", "tool", "other")
    assert op(rl__kind=value, openinference__span__kind=value, metadata=value).name == "x"
