"""`rolltrace proxy` between the real SDKs and a server: bytes pass as they come, and a copy becomes trajectories."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import websockets.exceptions
import websockets.sync.client

import rolltrace
from rolltrace.messages import join_stream
from rolltrace.query import Op
from tests.background import eventually
from tests.integrations.agents.conftest import Traced
from tests.integrations.agents.proxies import proxying
from tests.integrations.agents.service import ANSWER, Request, Service, ids, logprob, served

KEY = "sk-secret-0123456789"
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


def said(text: str) -> Any:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def module_service() -> Iterator[Service]:
    with served() as service:
        yield service


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxied") / "store"


@pytest.fixture(scope="module")
def address(module_service: Service, store: Path) -> Iterator[str]:
    """One proxy for all tests: each looks for its own trajectory."""
    with proxying(module_service.url, store, "--enrich") as address:
        yield address


@pytest.fixture
def service(module_service: Service) -> Service:
    module_service.confirmed.clear()
    module_service.hung_up.clear()
    module_service.held_out.clear()
    return module_service


@pytest.fixture
def traced(store: Path) -> Traced:
    rolltrace.init("agents", "proxy", store=store, drain="off", quiet=True)
    return Traced(store)


def chat_of(address: str, trajectory: Any = None, **options: Any) -> Any:
    base = rolltrace.proxied_env(trajectory, proxy=address)["OPENAI_BASE_URL"]
    return openai.OpenAI(base_url=base, api_key=KEY, **options).chat.completions


def ended_ops(traced: Traced, trajectory_id: str) -> list[Op]:
    """Its ops, once all of them have ended: the proxy notes an end after the agent has seen it."""
    eventually(lambda: all(op.status != "running" for op in traced.store.trajectory(trajectory_id).ops))
    return traced.store.trajectory(trajectory_id).ops


def key_of(request: Request) -> str:
    return request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("streamed", [False, True])
def test_tokens_are_recorded_that_the_agent_did_not_ask_for_and_does_not_see(
    address: str, service: Service, traced: Traced, streamed: bool
) -> None:
    with rolltrace.rollout_trace_attr(step=1, sample_index="tokens", rollout_n=int(streamed)) as trajectory:
        chat = chat_of(address, trajectory)
        if streamed:
            chunks = list(chat.create(model="m", messages=said("hi"), stream=True))
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
            assert all(chunk.choices and chunk.usage is None for chunk in chunks)
            shown = [chunk.model_dump() for chunk in chunks]
        else:
            shown = [chat.create(model="m", messages=said("hi")).model_dump()]
        assert "token_ids" not in json.dumps(shown)
        assert all(choice["logprobs"] is None for each in shown for choice in each["choices"] if "logprobs" in choice)
    (op,) = ended_ops(traced, trajectory.id)
    answer = service.answers[-1]
    assert (op.name, op.kind, op.status) == ("openai.chat.completions", "llm", "ok")
    assert op.tokens.prompt_ids == answer["prompt_token_ids"]
    assert op.tokens.response_ids == ids(ANSWER)
    assert op.tokens.logprobs == pytest.approx([logprob(at) for at in range(len(ANSWER))])
    assert join_stream(op.outputs)["usage"] == answer["usage"]
    assert "return_token_ids" not in op.inputs


def test_the_first_event_passes_before_the_server_sends_the_second(
    address: str, service: Service, traced: Traced
) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        events = iter(chat_of(address, trajectory).create(model="m", messages=said("HOLD"), stream=True))
        next(events)
        service.confirmed.set()
        assert len(list(events)) > 3
    assert not service.held_out.is_set()


def test_an_upstream_that_breaks_looks_broken(address: str, service: Service, traced: Traced) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        stream = chat_of(address, trajectory).create(model="m", messages=said("CUT"), stream=True)
        with pytest.raises(Exception, match=r"peer closed|incomplete|Connection"):
            list(stream)
    (op,) = ended_ops(traced, trajectory.id)
    assert (op.status, op.outputs["count"]) == ("error", 3)
    assert "broke off" in op.error


def test_an_agent_that_hangs_up_hangs_up_on_the_server(address: str, service: Service, traced: Traced) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        stream = chat_of(address, trajectory).create(model="m", messages=said("HOLD"), stream=True)
        next(iter(stream))
        stream.close()
    (op,) = ended_ops(traced, trajectory.id)
    assert (op.status, op.error.partition(":")[0]) == ("cancelled", "HungUp")
    service.confirmed.set()
    eventually(service.hung_up.is_set)


def test_attempts_are_told_apart_and_one_is_a_turn(address: str, service: Service, traced: Traced) -> None:
    with rolltrace.rollout_trace_attr(step=1, sample_index="attempts") as trajectory:
        chat_of(address, trajectory).create(model="m", messages=said("FLAKY through the proxy"))
    first, second = ended_ops(traced, trajectory.id)
    assert (first.kind, first.status, first.error.partition(":")[0]) == ("other", "error", "HTTP 503")
    assert (second.kind, second.status, second.inputs["attempt"]) == ("llm", "ok", 2)


def test_the_context_can_stand_in_a_header_or_in_the_key(service: Service, traced: Traced, store: Path) -> None:
    variables = {"UPSTREAM_KEY": "sk-upstream-key"}
    with proxying(service.url, store, "--key-from", "UPSTREAM_KEY", variables=variables) as address:  # noqa: SIM117
        with rolltrace.rollout_trace_attr(step=1) as trajectory:
            context = rolltrace.proxied_env(trajectory, proxy=address)["ANTHROPIC_BASE_URL"].rpartition("/t/")[2]
            by_key = anthropic.Anthropic(base_url=address, api_key=f"rt-{context}")
            by_key.messages.create(model="m", max_tokens=9, messages=said("by key"))
            assert key_of(service.seen[-1]) == "sk-upstream-key"
            headers = {"x-rolltrace-context": context}
            by_header = anthropic.Anthropic(base_url=address, api_key=KEY, default_headers=headers)
            by_header.messages.create(model="m", max_tokens=9, messages=said("by key"))
            assert key_of(service.seen[-1]) == KEY
            assert "x-rolltrace-context" not in service.seen[-1].headers
    ops = ended_ops(traced, trajectory.id)
    assert [(op.name, op.status) for op in ops] == [("anthropic.messages", "ok")] * 2


def test_turns_are_one_trajectory_and_other_conversations_are_branches_of_it(
    address: str, service: Service, traced: Traced
) -> None:
    with rolltrace.rollout_trace_attr(step=4, sample_index="branches") as trajectory:
        chat = chat_of(address, trajectory)
        main = [{"role": "system", "content": "now: 12:01"}, *said("TOOL what is 17+25?")]
        reply = chat.create(model="m", messages=main, tools=TOOLS).choices[0].message
        chat.create(model="m", messages=said("a sub-agent's task"))
        main = [
            {"role": "system", "content": "now: 12:02"}, *main[1:], reply.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "42"},
        ]  # fmt: skip
        chat.create(model="m", messages=main, tools=TOOLS)
        chat.create(model="m", messages=said("so far: the sum is 42. Go on."))  # what is left after a compaction
    rows = traced.store.sql(
        "SELECT trajectory_id, turns, name FROM trajectories WHERE step = 4 ORDER BY start_ns"
    ).rows()
    assert [(row["turns"], row["name"]) for row in rows] == [(2, "rollout_trace"), (1, "branch"), (1, "branch")]
    first = ended_ops(traced, trajectory.id)[0]
    for row in rows[1:]:
        assert traced.store.trajectory(row["trajectory_id"]).parent_trajectory_id == trajectory.id
    assert traced.store.trajectory(rows[1]["trajectory_id"]).parent_op_id == first.op_id
    roles = [message["role"] for message in traced.store.trajectory(trajectory.id).conversation]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]


def test_an_agent_without_a_context_gets_a_trajectory_of_its_own(address: str, traced: Traced) -> None:
    claude = anthropic.Anthropic(base_url=address, api_key=KEY, default_headers={"x-claude-code-session-id": "s-1"})
    for text in ("one", "two"):
        claude.messages.create(model="m", max_tokens=9, messages=said(f"no context: {text}"))
    rows = traced.store.sql(
        "SELECT trajectory_id, turns, name FROM trajectories WHERE step IS NULL AND turns > 0 ORDER BY start_ns"
    ).rows()[-2:]
    assert [(row["turns"], row["name"]) for row in rows] == [(1, "agent"), (1, "branch")]
    assert traced.store.trajectory(rows[1]["trajectory_id"]).parent_trajectory_id == rows[0]["trajectory_id"]


def test_no_key_is_recorded_even_if_the_server_quotes_it(address: str, traced: Traced, store: Path) -> None:
    with pytest.raises(openai.BadRequestError):
        chat_of(address, None).create(model="m", messages=said(f"ERROR {KEY[:3]}"))
    rolltrace.flush()
    written = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert b"openai.chat.completions" in written
    assert KEY.encode() not in written


def test_what_is_no_model_call_passes_and_is_not_recorded(address: str, service: Service, traced: Traced) -> None:
    before = traced.row("SELECT count(*) AS n FROM spans")["n"]
    assert openai.OpenAI(base_url=f"{address}/v1", api_key=KEY).models.list().data[0].id == "fake"
    asked = urllib.request.Request(address, method="HEAD")
    assert urllib.request.urlopen(asked, timeout=30).status == 200
    claude = anthropic.Anthropic(base_url=address, api_key=KEY)
    assert claude.messages.count_tokens(model="m", messages=said("hi")).input_tokens > 0
    assert traced.row("SELECT count(*) AS n FROM spans")["n"] == before


def test_an_agent_that_asks_for_a_websocket_is_told_to_use_http(service: Service, tmp_path: Path) -> None:
    asked, log = len(service.seen), tmp_path / "log"
    with log.open("w") as stderr, proxying(service.url, tmp_path / "store", stderr=stderr) as address:
        for path in ("/v1/responses", "/v1/realtime?model=m"):
            with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
                websockets.sync.client.connect(f"ws{address.removeprefix('http')}{path}")
            answer = refused.value.response
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "HTTP/1.1")
            assert "by POST" in json.loads(answer.body)["error"]["message"]
        client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY)
        with pytest.raises(websockets.exceptions.InvalidStatus, match="426"), client.responses.connect():
            pass
        assert client.responses.create(model="m", input="by POST").output_text == ANSWER
    assert [request.path for request in service.seen[asked:]] == ["/v1/responses"]
    assert log.read_text().count("an agent asked for a WebSocket (/v1/responses)") == 1
    assert log.read_text().count("\n") == 1


def test_a_slow_agent_slows_the_server_down(traced: Traced, store: Path) -> None:
    """The server can send no more than what fits into the buffers between, as long as the agent does not read."""
    piece, most = b"x" * 65536, 2000
    sent = 0
    stuck = threading.Event()

    def flood(listening: socket.socket) -> None:
        nonlocal sent
        connection, _ = listening.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nconnection: close\r\n\r\n")
        connection.settimeout(2)
        try:
            while sent < most:
                connection.sendall(piece)
                sent += 1
        except TimeoutError:
            stuck.set()
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=flood, args=(listening,), daemon=True)
        server.start()
        with proxying(f"http://127.0.0.1:{listening.getsockname()[1]}", store) as address:
            agent = http.client.HTTPConnection(address.partition("//")[2], timeout=60)
            agent.request("GET", "/files/large")
            assert agent.getresponse().status == 200
            assert stuck.wait(60), "the proxy took all that the server had"
            agent.close()
        server.join(30)
    assert sent < most


def test_an_upstream_that_is_not_there_is_told(tmp_path: Path) -> None:
    with proxying("http://127.0.0.1:9", tmp_path / "store") as address:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/v1/models", timeout=30)
        assert refused.value.code == 502
        assert "cannot be reached" in json.load(refused.value)["error"]["message"]


def test_elsewhere_a_token_is_needed_and_web_pages_are_refused(service: Service, tmp_path: Path) -> None:
    with proxying(service.url, tmp_path / "store", "--host", "0.0.0.0") as address:
        bare = address.partition("/k/")[0]
        assert urllib.request.urlopen(f"{address}/v1/models", timeout=30).status == 200
        for url in (f"{bare}/v1/models", f"{bare}/k/{'x' * 32}/v1/models"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(url, timeout=30)
        page = urllib.request.Request(f"{address}/v1/models", headers={"Origin": "http://evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(page, timeout=30)
