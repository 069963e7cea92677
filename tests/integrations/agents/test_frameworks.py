"""LiteLLM, LangChain with LangGraph, and OpenAI's Agents SDK: one turn for each model call, whoever else sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rolltrace
from rolltrace.instruments import OpenOp
from tests.background import eventually
from tests.integrations.agents.conftest import Traced
from tests.integrations.agents.service import ANSWER, Service, ids, prompt_of

litellm: Any = pytest.importorskip("litellm")
agents: Any = pytest.importorskip("agents")
from agents.tracing import get_trace_provider  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.tools import BaseTool, tool  # noqa: E402
from langchain_core.tracers import context as langchain_context  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from langgraph.graph import START, MessagesState, StateGraph  # noqa: E402
from langgraph.prebuilt import ToolNode  # noqa: E402
from litellm.integrations.custom_logger import CustomLogger  # noqa: E402
from openai import AsyncOpenAI, NotFoundError, OpenAI  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # theirs
litellm.telemetry = False
litellm.suppress_debug_info = True
TOGETHER = pytest.mark.parametrize("others", [(), ("openai", "anthropic")], ids=["alone", "with the SDKs"])


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: one
        b: the other
    """
    return a + b


def said(text: str) -> Any:
    return [{"role": "user", "content": text}]


def turns(traced: Traced) -> dict[str, Any]:
    """Turns, tool calls and tokens of each trajectory, by its sample."""
    rows = traced.store.trajectories().rows()
    names = ("turns", "tool_calls", "prompt_tokens", "response_tokens")
    return {row["sample_index"]: tuple(row[name] for name in names) for row in rows}


def usage_of(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer["usage"]
    return usage["prompt_tokens"], usage["completion_tokens"]


@TOGETHER
async def test_litellm(service: Service, traced: Traced, others: tuple[str, ...]) -> None:
    rolltrace.instrument("litellm", *others)
    openai = {"model": "openai/fake", "api_base": f"{service.url}/v1", "api_key": "x"}
    with_ids = {**openai, "extra_body": {"return_token_ids": True}}
    with_usage = {**openai, "stream": True, "stream_options": {"include_usage": True}}
    anthropic = {"model": "anthropic/fake", "api_base": service.url, "api_key": "x", "max_tokens": 50}

    async def rollout(name: str, **request: Any) -> None:
        with rolltrace.rollout_trace_attr(sample_index=name, step=1):
            answer = await litellm.acompletion(messages=said(name), **request)
            if request.get("stream"):
                async for _ in answer:
                    pass

    with rolltrace.rollout_trace_attr(sample_index="sync", step=1):
        litellm.completion(messages=said("sync"), **with_ids)
    await asyncio.gather(rollout("one", **with_ids), rollout("two", **with_ids))
    await rollout("stream", **with_usage)
    await rollout("claude", **anthropic)
    with pytest.raises(litellm.BadRequestError):
        await rollout("ERROR", **openai)
    await asyncio.to_thread(eventually, lambda: all(op.status != "running" for op in traced.ops()))
    found = turns(traced)
    for name in ("sync", "one", "two", "stream"):
        assert found[name] == (1, 0, len(prompt_of(said(name))), len(ANSWER))
    assert found["claude"] == (1, 0, len(prompt_of(said("claude"))) + 3, len(ANSWER))
    assert found["ERROR"] == (1, 0, None, None)
    for trajectory in traced.trajectories():
        (turn,) = [op for op in trajectory.walk() if op.kind == "llm"]
        assert turn.status == ("error" if trajectory.sample_index == "ERROR" else "ok")
        if trajectory.sample_index in ("sync", "one", "two"):
            assert turn.tokens is not None
            assert turn.tokens.response_ids == ids(ANSWER)


class Late(CustomLogger):  # type: ignore[misc]
    """Stands before ours and keeps LiteLLM from telling of an end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def log_success_event(self, *_: Any, **__: Any) -> None:
        self.may_go_on.wait(30)

    async def async_log_success_event(self, *_: Any, **__: Any) -> None:
        await asyncio.to_thread(self.may_go_on.wait, 30)


@pytest.fixture
def late() -> Iterator[Late]:
    late = Late()
    litellm.callbacks.append(late)
    yield late
    for callbacks in [value for name, value in vars(litellm).items() if "callback" in name and type(value) is list]:
        callbacks[:] = [each for each in callbacks if each is not late]


@TOGETHER
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_calls_after_one_of_litellm_that_has_not_called_back_yet_are_not_inside_of_it(
    service: Service, traced: Traced, late: Late, others: tuple[str, ...], way: str
) -> None:
    rolltrace.instrument("litellm", "langchain", *others)
    request = {"model": "openai/fake", "api_base": f"{service.url}/v1", "api_key": "x"}

    def statuses() -> list[str]:
        return [op.status for op in traced.ops()]

    if way == "sync":
        for word in ("one", "two"):
            litellm.completion(messages=said(word), **request)
    else:
        for word in ("one", "two"):
            await litellm.acompletion(messages=said(word), **request)
    assert statuses().count("running") == 2  # LiteLLM has told nobody
    OpenAI(base_url=f"{service.url}/v1", api_key="x").chat.completions.create(model="m", messages=said("by the SDK"))
    ChatOpenAI(model="fake", base_url=f"{service.url}/v1").invoke("by LangChain")
    late.may_go_on.set()
    await asyncio.to_thread(eventually, lambda: "running" not in statuses())
    asked = [each.conversation[0]["content"] for each in traced.trajectories()]
    assert sorted(asked) == sorted(["one", "two", "by LangChain", *(["by the SDK"] if others else [])])
    for trajectory in traced.trajectories():
        assert len(trajectory.ops) == 1
        assert [op.kind for op in trajectory.walk()].count("llm") == 1


@TOGETHER
async def test_langchain_and_langgraph(service: Service, traced: Traced, others: tuple[str, ...]) -> None:
    rolltrace.instrument("langchain", *others)
    more = {"return_token_ids": True}
    graph = create_agent(ChatOpenAI(model="fake", base_url=f"{service.url}/v1", extra_body=more), [tool(add)])
    asked = {"messages": [("user", "TOOL 17+25?")]}
    with rolltrace.rollout_trace_attr(sample_index="sync", step=1):
        await asyncio.to_thread(graph.invoke, asked)
    with rolltrace.rollout_trace_attr(sample_index="async", step=1):
        await graph.ainvoke(asked)
    with rolltrace.rollout_trace_attr(sample_index="stream", step=1):
        async for _ in graph.astream(asked):
            pass
    await graph.ainvoke(asked)
    call, answer = service.answers[:2]
    expected = (2, 1, usage_of(answer)[0], usage_of(call)[1] + usage_of(answer)[1])
    assert turns(traced) == {"sync": expected, "async": expected, "stream": expected, None: expected}
    for trajectory in traced.trajectories():
        (top,) = trajectory.ops
        assert (top.name, [op.name for op in top.children]) == ("LangGraph", ["model", "tools", "model"])
        assert [message["role"] for message in trajectory.conversation] == ["user", "assistant", "tool", "assistant"]
        (called,) = [op for op in trajectory.walk() if op.kind == "tool"]
        assert (called.name, called.inputs) == ("add", {"a": 17, "b": 25})
        if others:
            last = [op for op in trajectory.walk() if op.kind == "llm"][-1]
            assert last.tokens is not None
            assert last.tokens.response_ids == ids(ANSWER)


@TOGETHER
@pytest.mark.parametrize("model", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
async def test_openai_agents(service: Service, traced: Traced, others: tuple[str, ...], model: str) -> None:
    rolltrace.instrument("openai-agents", *others)
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="x")
    agent = agents.Agent(
        name="adder", instructions="Be brief.", tools=[agents.function_tool(add)],
        model=getattr(agents, model)(model="fake", openai_client=client),
    )  # fmt: skip
    with rolltrace.rollout_trace_attr(sample_index="agent", step=1):
        assert (await agents.Runner.run(agent, "TOOL 17+25?")).final_output == ANSWER
    usages = [answer["usage"] for answer in service.answers]
    counts = [(each.get("prompt_tokens") or each["input_tokens"], each.get("completion_tokens") or each["output_tokens"]) for each in usages]  # fmt: skip # noqa: E501
    assert turns(traced) == {"agent": (2, 1, counts[1][0], counts[0][1] + counts[1][1])}
    (trajectory,) = traced.trajectories()
    told = [message["role"] for message in trajectory.conversation if message["role"] != "system"]
    assert told == ["user", "assistant", "tool", "assistant"]


async def _litellm_stream(service: Service) -> AsyncIterator[Any]:
    request = {"model": "openai/fake", "api_base": f"{service.url}/v1", "api_key": "x", "stream": True}
    async for chunk in await litellm.acompletion(messages=said("LATER"), **request):
        yield chunk


def _langchain_stream(service: Service) -> AsyncIterator[Any]:
    return ChatOpenAI(model="fake", base_url=f"{service.url}/v1").astream("LATER")


def _agents_stream(service: Service) -> AsyncIterator[Any]:
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="x")
    model = agents.OpenAIChatCompletionsModel(model="fake", openai_client=client)
    streamed = agents.Runner.run_streamed(agents.Agent(name="adder", model=model), "LATER")
    return raw_events(streamed)


async def raw_events(streamed: Any) -> AsyncIterator[Any]:
    async for event in streamed.stream_events():
        if event.type == "raw_response_event":
            yield event


STREAMS = {"litellm": _litellm_stream, "langchain": _langchain_stream, "openai-agents": _agents_stream}


@TOGETHER
@pytest.mark.parametrize("name", STREAMS)
async def test_the_first_piece_of_a_stream_is_there_before_the_server_sends_the_rest(
    service: Service, traced: Traced, others: tuple[str, ...], name: str
) -> None:
    rolltrace.instrument(name, *others)
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        stream = STREAMS[name](service)
        await anext(stream)
        service.confirmed.set()
        assert len([piece async for piece in stream]) > 3
    assert not service.held_out.is_set()
    await asyncio.to_thread(eventually, lambda: all(op.status == "ok" for op in traced.ops()))
    assert [op.kind for op in traced.store.trajectory(trajectory.id).walk()].count("llm") == 1


@pytest.mark.parametrize("name", STREAMS)
async def test_while_tracing_is_off_nothing_is_begun(
    service: Service, traced: Traced, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rolltrace.instrument()
    rolltrace.shutdown()
    begun: list[Any] = []
    monkeypatch.setattr(OpenOp, "__init__", lambda *args, **kwargs: begun.append(args))
    service.confirmed.set()
    assert len([piece async for piece in STREAMS[name](service)]) > 3
    assert tool(add).invoke({"a": 17, "b": 25}) == 42
    assert begun == []


@rolltrace.rollout_trace_op(kind="env")
def look_up(word: str) -> str:
    return word.upper()


def tools_that_do_more(service: Service) -> list[Any]:
    """One of each kind; each calls a function that is traced, and asks a model by an SDK that is."""
    sync_client = OpenAI(base_url=f"{service.url}/v1", api_key="x", max_retries=1)
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="x")

    def plain(word: str) -> str:
        """Ask."""
        with pytest.raises(NotFoundError):
            sync_client.embeddings.create(model="m", input=f"FLAKY {word}")  # no model call, nor is its retry
        sync_client.chat.completions.create(model="m", messages=said(word))
        return look_up(word)

    async def asynchronous(word: str) -> str:
        """Ask."""
        await client.chat.completions.create(model="m", messages=said(word))
        await asyncio.sleep(0)
        return look_up(word)

    return [plain, asynchronous]


def op_tree(op: Any) -> Any:
    return (op.name, [op_tree(child) for child in op.children])


async def test_what_a_tool_of_langchain_does_is_inside_of_it(service: Service, traced: Traced) -> None:
    rolltrace.instrument("langchain", "openai")
    plain, asynchronous = map(tool, tools_that_do_more(service))

    @tool
    async def outer(word: str) -> str:
        """Use another tool."""
        return str(await asynchronous.ainvoke(word))

    @tool
    def fails(word: str) -> str:
        """Fail."""
        raise ValueError(look_up(word))

    with rolltrace.rollout_trace_attr(sample_index="tools", step=1) as trajectory:
        plain.invoke("sync")
        await asyncio.gather(plain.ainvoke("in a thread"), asynchronous.ainvoke("one"), asynchronous.ainvoke("two"))
        await outer.ainvoke("nested")
        for call in (lambda: fails.invoke("x"), lambda: asyncio.run(fails.ainvoke("x"))):
            with pytest.raises(ValueError, match="X"):
                await asyncio.to_thread(call)
        with pytest.raises(ValueError, match="X"):
            await fails.ainvoke("x")
        look_up("outside")
    inside = [("openai.chat.completions", []), ("look_up", [])]
    found = [op_tree(op) for op in traced.store.trajectory(trajectory.id).ops]
    assert found[0] == ("plain", inside)
    assert sorted(found[1:4]) == [("asynchronous", inside), ("asynchronous", inside), ("plain", inside)]
    assert found[4:] == [
        ("outer", [("asynchronous", inside)]),
        *[("fails", [("look_up", [])])] * 3,
        ("look_up", []),
    ]
    calls = [op for op in traced.ops() if op.kind == "tool" and op.children[0].kind == "llm"]
    asked = {op.children[0].inputs["messages"][0]["content"]: op.inputs for op in calls}
    assert all(word in str(given) for word, given in asked.items())  # none is in the tool that runs beside it


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_tools_that_run_beside_each_other_have_each_what_is_theirs(
    service: Service, traced: Traced, way: str
) -> None:
    rolltrace.instrument("langchain", "openai")
    meeting = threading.Barrier(2, timeout=30)

    @tool
    def wait(word: str) -> str:
        """Both are in it at once."""
        meeting.wait()
        said_back = look_up(word)
        meeting.wait()
        return said_back

    node = ToolNode([wait])
    calls = [{"name": "wait", "args": {"word": word}, "id": word, "type": "tool_call"} for word in ("a", "b")]
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    asked = {"messages": [AIMessage("", tool_calls=calls)]}
    with rolltrace.rollout_trace_attr(sample_index=way, step=1) as trajectory:
        if way == "invoke":
            graph.invoke(asked)
        else:
            await graph.ainvoke(asked)
    tools = [op for op in traced.store.trajectory(trajectory.id).walk() if op.kind == "tool"]
    assert [op_tree(op) for op in tools] == [("wait", [("look_up", [])])] * 2
    assert all(op.children[0].inputs["word"] == op.inputs["word"] for op in tools)


async def test_what_a_tool_of_the_agents_sdk_does_is_inside_of_it(service: Service, traced: Traced) -> None:
    rolltrace.instrument("openai-agents", "openai")
    client = AsyncOpenAI(base_url=f"{service.url}/v1", api_key="x")

    @agents.function_tool
    async def add(a: int, b: int) -> str:
        await asyncio.sleep(0)
        return look_up(f"{a + b}")

    model = agents.OpenAIChatCompletionsModel(model="fake", openai_client=client)
    agent = agents.Agent(name="adder", tools=[add], model=model)
    with rolltrace.rollout_trace_attr(sample_index="agent", step=1) as trajectory:
        await agents.Runner.run(agent, "TOOL 17+25?")
        look_up("outside")
    recorded = traced.store.trajectory(trajectory.id)
    (called,) = [op for op in recorded.walk() if op.kind == "tool"]
    assert op_tree(called) == ("add", [("look_up", [])])
    assert recorded.ops[-1].name == "look_up"


@pytest.fixture
def vendors() -> Iterator[Any]:
    """The processors that the Agents SDK has by itself."""
    every = get_trace_provider()._multi_processor
    yield every
    assert rolltrace.instruments.uninstrument() is None


def test_nothing_is_sent_to_the_vendor_of_the_agents_sdk(traced: Traced, vendors: Any) -> None:
    before = vendors._processors
    assert [type(each).__name__ for each in before] == ["BatchTraceProcessor"]
    rolltrace.instrument("openai-agents")
    assert [type(each).__module__ for each in vendors._processors] == ["rolltrace.instruments.openai_agents"]
    rolltrace.instruments.uninstrument()
    assert vendors._processors == before


def test_uninstrument_leaves_nothing_behind(traced: Traced, service: Service) -> None:
    hooks, runs = list(langchain_context._configure_hooks), (BaseTool.run, BaseTool.arun)
    lists = {name: list(value) for name, value in vars(litellm).items() if "callback" in name and type(value) is list}
    rolltrace.instrument("litellm", "langchain")
    assert langchain_context._configure_hooks != hooks
    assert BaseTool.run is not runs[0]
    asked = {"model": "openai/fake", "api_base": f"{service.url}/v1", "api_key": "x"}
    litellm.completion(messages=said("hi"), **asked)
    rolltrace.instruments.uninstrument()
    assert langchain_context._configure_hooks == hooks
    assert (BaseTool.run, BaseTool.arun) == runs
    assert {name: list(getattr(litellm, name)) for name in lists} == lists
    count = len(traced.ops())
    litellm.completion(messages=said("hi"), **asked)
    assert len(traced.ops()) == count
