"""Tokens in, tokens out: SGLang's `/generate` and vLLM's `/v1/completions`, by an SDK and through `rolltrace proxy`."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import rolltrace
from rolltrace.query import Op
from tests.background import eventually
from tests.integrations.agents.conftest import Traced
from tests.integrations.agents.proxies import proxying
from tests.integrations.agents.service import ANSWER, Service, ids, logprob, served

LOGPROBS = [logprob(at) for at in range(len(ANSWER))]
PROMPT = "<user>17+25?<assistant>"
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with served() as service:
        yield service


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines") / "store"


@pytest.fixture
def traced(store: Path) -> Iterator[Traced]:
    rolltrace.init("agents", "engines", store=store, drain="off", quiet=True)
    rolltrace.instrument("openai")
    yield Traced(store)
    rolltrace.instruments.uninstrument()


@pytest.fixture(scope="module", params=["sdk", "proxy", "proxy --enrich"])
def ask(request: pytest.FixtureRequest, service: Service, store: Path) -> Iterator[Ask]:
    """Asks for a path with a body and, unless a proxy sees to that, with more; gives the answer, or its events."""
    if request.param == "sdk":
        yield lambda path, body, **more: by_sdk(service.url, path, {**body, **more})
        return
    enriches = request.param == "proxy --enrich"
    options = ["--experiment", "engines", *(["--enrich"] if enriches else [])]
    with proxying(service.url, store, *options) as address:

        def through(path: str, body: dict[str, Any], **more: Any) -> list[Any]:
            asked = body if enriches else {**body, **more}
            answer = posted(rolltrace.proxied_env(proxy=address)["ANTHROPIC_BASE_URL"] + path, asked)
            assert answer == posted(service.url + path, asked)  # as without us
            return answer

        yield through


def by_sdk(base: str, path: str, body: dict[str, Any]) -> list[Any]:
    """OpenAI's SDK can be asked for any path."""
    client = openai.OpenAI(base_url=base, api_key="x")
    if body.get("stream"):
        return list(client.post(path, cast_to=object, body=body, stream=True, stream_cls=openai.Stream[object]))
    return [client.post(path, cast_to=object, body=body)]


def posted(url: str, body: dict[str, Any]) -> list[Any]:
    """What a trainer gets that has an HTTP client only. The numbers of the answers are left out."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = re.sub(r'"(cmpl-|r)\d+"', '"number"', response.read().decode())
    if not body.get("stream"):
        return [json.loads(text)]
    *events, end, _ = text.split("\n\n")
    assert end == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def ended_op(traced: Traced, trajectory_id: str) -> Op:
    """The one op of a trajectory, once it has ended: the proxy notes an end after the agent has seen it."""
    eventually(lambda: [op.status for op in traced.store.trajectory(trajectory_id).ops] == ["ok"])
    (op,) = traced.store.trajectory(trajectory_id).ops
    return op


@pytest.mark.parametrize("stream", ["", "cumulative", "INCREMENTAL"])
def test_sglang_is_given_text(ask: Ask, traced: Traced, stream: str) -> None:
    body = {"text": f"{stream} {PROMPT}", "sampling_params": {"max_new_tokens": 64}, "stream": bool(stream)}
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        texts = [event["text"] for event in ask("/generate", body, return_logprob=True)]
    assert ("".join(texts) if stream == "INCREMENTAL" else texts[-1]) == ANSWER
    op = ended_op(traced, trajectory.id)
    assert (op.name, op.kind, op.finish_reason, op.policy_version) == ("sglang.generate", "llm", "stop", 7)
    assert op.tokens.response_ids == ids(ANSWER)
    assert op.tokens.logprobs == pytest.approx(LOGPROBS)
    assert traced.store.trajectory(trajectory.id).conversation == [
        {"role": "user", "content": body["text"]},
        {"role": "assistant", "content": ANSWER},
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_sglang_is_given_tokens(ask: Ask, traced: Traced, stream: bool) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        ask("/generate", {"input_ids": ids(PROMPT), "stream": stream}, return_logprob=True)
    op = ended_op(traced, trajectory.id)
    assert (op.tokens.prompt_ids, op.tokens.response_ids) == (ids(PROMPT), ids(ANSWER))
    assert op.tokens.logprobs == pytest.approx(LOGPROBS)
    assert (op.prompt_tokens, op.response_tokens, op.finish_reason) == (len(PROMPT), len(ANSWER), "stop")


def test_several_prompts_of_sglang_are_one_op_with_all_answers(ask: Ask, traced: Traced) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        (answer,) = ask("/generate", {"input_ids": [ids("one"), ids("two")]}, return_logprob=True)
    assert [each["text"] for each in answer] == [ANSWER, ANSWER]
    recorded = [each["meta_info"]["output_token_logprobs"] for each in ended_op(traced, trajectory.id).outputs]
    assert [[token for _, token, _ in each] for each in recorded] == [ids(ANSWER)] * 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("given", ["text", "tokens"])
def test_vllm_completions(ask: Ask, traced: Traced, stream: bool, given: str) -> None:
    body = {"model": "m", "prompt": PROMPT if given == "text" else ids(PROMPT), "stream": stream}
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        answer = ask("/v1/completions", body, logprobs=1, return_token_ids=True)
    assert "".join(event["choices"][0]["text"] for event in answer) == ANSWER
    op = ended_op(traced, trajectory.id)
    assert (op.name, op.kind, op.finish_reason) == ("openai.completions", "llm", "stop")
    assert (op.tokens.prompt_ids, op.tokens.response_ids) == (ids(PROMPT), ids(ANSWER))
    assert op.tokens.logprobs == pytest.approx(LOGPROBS)
