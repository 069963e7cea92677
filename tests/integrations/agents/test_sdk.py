"""OpenAI's and Anthropic's SDKs, unchanged: what the server said is what is recorded, and nobody waits for it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import openai._base_client
import pytest
from pydantic import BaseModel

import rolltrace
from rolltrace.messages import join_stream
from tests.integrations.agents.conftest import Traced
from tests.integrations.agents.service import ANSWER, Service, ids, logprob

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
IDS: dict[str, Any] = {"extra_body": {"return_token_ids": True}}


class Answer(BaseModel):
    answer: int


def said(text: str) -> Any:
    return [{"role": "user", "content": text}]


@pytest.fixture
def chat(service: Service) -> Any:
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="sk-secret-0123456789").chat.completions


@pytest.fixture
def claude(service: Service) -> Any:
    return anthropic.Anthropic(base_url=service.url, api_key="sk-secret-0123456789").messages


@pytest.fixture(autouse=True)
def _on(traced: Traced) -> None:
    rolltrace.instrument("openai", "anthropic")


CREATED: dict[str, Callable[[Any], Any]] = {
    "create": lambda chat: chat.create(model="m", messages=said("hi"), logprobs=True, **IDS),
    "raw": lambda chat: chat.with_raw_response.create(model="m", messages=said("hi"), logprobs=True, **IDS).parse(),
    "streamed": lambda chat: list(
        chat.create(
            model="m", messages=said("hi"), logprobs=True, stream=True, stream_options={"include_usage": True}, **IDS
        )
    ),
    "raw stream": lambda chat: list(
        chat.with_raw_response.create(
            model="m", messages=said("hi"), logprobs=True, stream=True, stream_options={"include_usage": True}, **IDS
        ).parse()
    ),
}


@pytest.mark.parametrize("way", CREATED)
def test_tokens_logprobs_usage_and_reply_are_those_of_the_server(
    chat: Any, service: Service, traced: Traced, way: str
) -> None:
    CREATED[way](chat)
    op, answer = traced.op(), service.answers[0]
    assert (op.name, op.kind, op.status) == ("openai.chat.completions", "llm", "ok")
    assert op.tokens.prompt_ids == answer["prompt_token_ids"]
    assert op.tokens.response_ids == answer["choices"][0]["token_ids"] == ids(ANSWER)
    assert op.tokens.logprobs == pytest.approx([logprob(at) for at in range(len(ANSWER))])
    assert op.finish_reason == "stop"
    assert traced.trajectories()[0].conversation == [*said("hi"), {"role": "assistant", "content": ANSWER}]
    recorded = join_stream(op.outputs)
    assert recorded["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]


def test_the_helpers_of_the_sdk_are_one_turn_each(chat: Any, service: Service, traced: Traced) -> None:
    with chat.stream(model="m", messages=said("one")) as stream:
        for _ in stream:
            pass
        stream.get_final_completion()
    parsed = chat.parse(model="m", messages=said("two"), response_format=Answer)
    assert parsed.choices[0].message.parsed.answer == 42
    with chat.with_streaming_response.create(model="m", messages=said("three")) as response:
        assert response.json()["choices"]
    chat.create(model="m", messages=said("four"), n=2)
    ops = traced.ops()
    assert [op.inputs["messages"][0]["content"] for op in ops] == ["one", "two", "three", "four"]
    assert all((op.kind, op.status) == ("llm", "ok") for op in ops)
    assert [len(join_stream(op.outputs)["choices"]) for op in ops] == [1, 1, 1, 2]


def test_completions_and_responses_are_recorded(service: Service, traced: Traced) -> None:
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="x")
    client.completions.create(model="m", prompt=[104, 105], logprobs=1, **IDS)
    client.responses.create(model="m", input="hi")
    list(client.responses.create(model="m", input="hi", stream=True))
    with client.responses.stream(model="m", input="hi") as stream:
        stream.until_done()
    assert client.responses.parse(model="m", input="hi", text_format=Answer).output_parsed.answer == 42
    completed, *responses = traced.ops()
    assert (completed.tokens.prompt_ids, completed.tokens.response_ids) == ([104, 105], ids(ANSWER))
    assert [op.name for op in responses] == ["openai.responses"] * 4
    counts = [(op.prompt_tokens, op.response_tokens, op.finish_reason) for op in responses]
    usages = [answer["usage"] for answer in service.answers[1:]]
    assert counts == [(each["input_tokens"], each["output_tokens"], "completed") for each in usages]


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropics_messages_are_recorded(claude: Any, service: Service, traced: Traced, streamed: bool) -> None:
    tools = [{"name": "add", "input_schema": {"type": "object"}}]
    asked = {"model": "m", "max_tokens": 99, "messages": said("TOOL"), "tools": tools}
    if streamed:
        with claude.stream(**asked) as stream:
            assert stream.get_final_message().stop_reason == "tool_use"
    else:
        assert claude.create(**asked).stop_reason == "tool_use"
    op, usage = traced.op(), service.answers[0]["usage"]
    assert (op.name, op.kind, op.finish_reason) == ("anthropic.messages", "llm", "tool_use")
    assert (op.prompt_tokens, op.response_tokens) == (usage["input_tokens"] + 3, usage["output_tokens"])
    call = traced.trajectories()[0].conversation[-1]["tool_calls"][0]["function"]
    assert (call["name"], call["arguments"].replace(" ", "")) == ("add", '{"a":17,"b":25}')


def test_tool_calls_of_a_stream_are_put_together(chat: Any, traced: Traced) -> None:
    list(chat.create(model="m", messages=said("TOOL"), tools=TOOLS, stream=True))
    call = traced.trajectories()[0].conversation[-1]["tool_calls"][0]
    assert call["function"] == {"name": "add", "arguments": '{"a": 17, "b": 25}'}
    assert traced.op().finish_reason == "tool_calls"


@pytest.mark.parametrize("way", ["openai", "anthropic"])
def test_the_first_event_of_a_stream_is_there_before_the_server_sends_the_second(
    chat: Any, claude: Any, service: Service, traced: Traced, way: str
) -> None:
    if way == "openai":
        stream = chat.create(model="m", messages=said("HOLD"), stream=True)
    else:
        stream = claude.create(model="m", max_tokens=9, messages=said("HOLD"), stream=True)
    events = iter(stream)
    next(events)
    service.confirmed.set()
    assert len(list(events)) > 3
    assert not service.held_out.is_set()


def test_a_stream_is_the_object_it_was(chat: Any, traced: Traced) -> None:
    stream = chat.create(model="m", messages=said("hi"), stream=True)
    assert type(stream) is openai.Stream
    stream.close()


@pytest.mark.parametrize("way", ["close", "forget"])
def test_a_stream_that_is_left_early_ends_with_what_was_read(chat: Any, traced: Traced, way: str) -> None:
    stream = chat.create(model="m", messages=said("HOLD"), stream=True)
    for _ in stream:
        break
    if way == "close":
        stream.close()
    del stream, _
    gc.collect()
    op = traced.op()
    assert (op.status, op.outputs["end"], op.outputs["count"]) == ("ok", "closed", 1)


def test_a_stream_that_breaks_is_an_error_with_what_was_read(chat: Any, traced: Traced) -> None:
    with pytest.raises(Exception, match=r"peer closed|incomplete|Connection"):
        list(chat.create(model="m", messages=said("CUT"), stream=True))
    op = traced.op()
    assert (op.status, op.outputs["end"], op.outputs["count"]) == ("error", "raised", 3)


def test_attempts_are_inside_one_op(chat: Any, service: Service, traced: Traced) -> None:
    chat.create(model="m", messages=said("FLAKY"))
    (trajectory,) = traced.trajectories()
    (call,) = trajectory.ops
    (retry,) = call.children
    assert (len(service.seen), call.kind, call.status) == (2, "llm", "ok")
    assert (retry.name, retry.inputs["attempt"], retry.inputs["status"]) == ("retry", 1, 503)
    assert traced.row("SELECT turns FROM trajectories")["turns"] == 1


def test_what_the_server_refuses_is_an_error(chat: Any, traced: Traced) -> None:
    with pytest.raises(openai.BadRequestError):
        chat.create(model="m", messages=said("ERROR"))
    op = traced.op()
    assert op.status == "error"
    assert "not like this" in op.error


async def test_asynchronous_calls_and_cancellation(service: Service, traced: Traced) -> None:
    chat = openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="x").chat.completions
    claude = anthropic.AsyncAnthropic(base_url=service.url, api_key="x").messages
    with rolltrace.rollout_trace_attr(step=1, sample_index=7):
        await chat.create(model="m", messages=said("one"), **IDS)
        async for _ in await chat.create(model="m", messages=said("two"), stream=True):
            pass
        async with chat.stream(model="m", messages=said("three")) as stream:
            async for _ in stream:
                pass
        async with claude.stream(model="m", max_tokens=9, messages=said("four")) as messages:
            await messages.get_final_message()

        first = asyncio.Event()

        async def read() -> None:
            async for _ in await chat.create(model="m", messages=said("HOLD"), stream=True):
                first.set()

        reader = asyncio.create_task(read())
        await first.wait()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    (trajectory,) = traced.trajectories()
    assert [op.status for op in trajectory.ops] == ["ok"] * 4 + ["cancelled"]
    assert trajectory.ops[0].tokens.response_ids == ids(ANSWER)
    assert trajectory.ops[4].outputs["count"] == 1
    assert traced.row("SELECT turns, sample_index FROM trajectories") == {"turns": 5, "sample_index": "7"}


def test_turns_of_a_conversation_outside_any_trajectory_are_one_trajectory(chat: Any, traced: Traced) -> None:
    def conversation(name: str) -> Any:
        messages = said(f"TOOL {name}")
        reply = chat.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "42"})
        return chat.create(model="m", messages=messages, tools=TOOLS)

    conversation("one")
    conversation("two")
    conversation("one")  # the same from the beginning is another rollout
    turns = [row["turns"] for row in traced.store.trajectories().rows()]
    assert turns == [2, 2, 2]
    assert [message["role"] for message in traced.trajectories()[0].conversation] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_a_call_inside_a_function_that_is_traced_as_a_model_call_is_no_turn_of_its_own(
    chat: Any, traced: Traced
) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def ask(messages: Any) -> str:
        return str(chat.create(model="m", messages=messages).choices[0].message.content)

    with rolltrace.rollout_trace_attr(step=1):
        ask(said("hi"))
    assert traced.row("SELECT turns FROM trajectories")["turns"] == 1
    assert [op.kind for op in traced.ops()] == ["llm", "other"]


def test_no_key_is_recorded(chat: Any, claude: Any, traced: Traced) -> None:
    chat.create(model="m", messages=said("hi"))
    claude.create(model="m", max_tokens=9, messages=said("hi"))
    rolltrace.flush()
    written = b"".join(path.read_bytes() for path in traced.path.rglob("*") if path.is_file())
    assert b"openai.chat.completions" in written
    assert b"sk-secret" not in written


def test_other_requests_are_not_recorded_nor_are_their_attempts(service: Service, traced: Traced) -> None:
    embeddings = openai.OpenAI(base_url=f"{service.url}/v1", api_key="x").embeddings
    with pytest.raises(openai.NotFoundError):
        embeddings.create(model="m", input="FLAKY")
    assert len(service.seen) == 2
    openai.OpenAI(base_url=f"{service.url}/v1", api_key="x").models.list()
    anthropic.Anthropic(base_url=service.url, api_key="x").messages.count_tokens(model="m", messages=said("hi"))
    assert traced.store.trajectories().rows() == []


def test_uninstrument_puts_back_the_very_objects(traced: Traced) -> None:
    rolltrace.instruments.uninstrument()
    classes = [
        getattr(module, name)
        for module in (openai._base_client, anthropic._base_client)
        for name in ("SyncAPIClient", "AsyncAPIClient")
    ]
    before = [dict(vars(each)) for each in classes]
    rolltrace.instrument()
    rolltrace.instrument("openai")  # again: nothing is changed twice
    assert [dict(vars(each)) for each in classes] != before
    rolltrace.instruments.uninstrument()
    assert [dict(vars(each)) for each in classes] == before
    assert "request" in before[0]


def test_while_tracing_is_off_nothing_is_followed(chat: Any, traced: Traced) -> None:
    rolltrace.shutdown()
    stream = chat.create(model="m", messages=said("hi"), stream=True)
    assert "iter_bytes" not in vars(stream.response)
    assert len(list(stream)) > 3


def test_an_instrument_that_is_unknown_is_told(traced: Traced) -> None:
    with pytest.raises(rolltrace.RolltraceError, match=r"no instrument 'opena'; there are: anthropic, .*openai"):
        rolltrace.instrument("opena")
