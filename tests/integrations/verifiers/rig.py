"""Rollouts of real verifiers: a harness that calls the model itself, and a stand-in for the inference server.

The server speaks as vLLM does when it trains: token ids in, token ids and logprobs out. The tokenizer is made here.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import types
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config
from verifiers.v1.runtimes import ProgramResult

_MARKS = ["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
_MARKS += ["<tool_response>", "</tool_response>"]
_TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call><|im_end|>'
AGAIN = "In short: 2 and 2."


def make_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, in a folder that looks like that of a model."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={symbol: number for number, symbol in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<|unk|>",
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    tokenizer.add_tokens(_MARKS)
    tokenizer.save_pretrained(folder)
    config = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **config).save_pretrained(folder)
    return tokenizer


class Server:
    """Answers with a tool call, then with a number; one prompt breaks it. Remembers what it was asked and said."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, model: str) -> None:
        self.model = model
        self.said: list[tuple[list[int], list[int], list[float]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

            def do_GET(self) -> None:
                about = {"id": model, "object": "model", "created": 1, "owned_by": "x", "max_model_len": 4096}
                self._send(200, {"object": "list", "data": [about]})

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["token_ids"]
                text = tokenizer.decode(asked)
                if "break" in text:
                    self._send(400, {"error": {"message": "this model is broken", "type": "bad"}})
                    return
                reply = "4<|im_end|>" if "<tool_response>" in text or AGAIN in text else CALL
                ids = tokenizer.encode(reply)
                logprobs = [-0.123456789 * (at + 1) for at in range(len(ids))]
                server.said.append((asked, ids, logprobs))
                content = [{"token": f"token_id:{each}", "logprob": value} for each, value in zip(ids, logprobs)]
                choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}
                self._send(200, {"request_id": "r", "choices": [choice]})

            def _send(self, status: int, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


class DirectConfig(vf.HarnessConfig):
    pass


class DirectHarness(vf.Harness[DirectConfig]):
    """An agent that uses a tool, answers, then begins again with a summary: a second branch."""

    APPENDS_SYSTEM_PROMPT = True
    NEEDS_CONTAINER = False
    EXECUTES_CODE = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any, **more: Any
    ) -> ProgramResult:
        _, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]

        def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
            body = json.dumps({"model": ctx.model, "messages": messages, "tools": [_TOOL]}).encode()
            headers = {"content-type": "application/json", "authorization": f"Bearer {secret}"}
            request = urllib.request.Request(endpoint.rstrip("/") + "/chat/completions", body, headers)
            with urllib.request.urlopen(request, timeout=30) as response:
                message: dict[str, Any] = json.load(response)["choices"][0]["message"]
                return message

        reply = await asyncio.to_thread(ask, messages)
        result = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "4"}
        await asyncio.to_thread(ask, [*messages, reply, result])
        if "crash" in prompt:
            raise RuntimeError("the agent crashed")
        await asyncio.to_thread(ask, [{"role": "user", "content": AGAIN}])
        return ProgramResult(0, "", "")


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(self.data.answer in (trace.last_reply or ""))

    @vf.reward(weight=0.5)
    async def brief(self, trace: vf.Trace) -> float:
        return 1.0 / max(1, trace.num_turns)

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


PROMPTS = ("2 and 2?", "crash at 2 and 2", "break at once")


class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        return [
            SumTask(SumData(idx=at, prompt=prompt, answer="4"), self.config.task) for at, prompt in enumerate(PROMPTS)
        ]


def _as_module(name: str, thing: type) -> None:
    """verifiers loads tasksets and harnesses by the names of modules."""
    module = types.ModuleType(name)
    module.__all__ = [thing.__name__]  # type: ignore[attr-defined]
    setattr(module, thing.__name__, thing)
    thing.__module__ = name
    sys.modules[name] = module


_as_module("rolltrace_sums", SumTaskset)
_as_module("rolltrace_direct", DirectHarness)


def make_env() -> Any:
    agent = {"harness": {"id": "rolltrace_direct"}, "runtime": {"type": "subprocess"}}
    config = vf.SingleAgentEnvConfig.model_validate({"taskset": {"id": "rolltrace_sums"}, "agent": agent})
    return vf.SingleAgentEnv(config)


def make_context(server: Server) -> Any:
    client = vf.TrainClientConfig(
        base_url=server.url, api_key_var="FAKE_KEY", renderer={"name": "qwen3"}, renderer_model_name=server.model
    )
    return vf.ModelContext(model=server.model, client=client)


async def run_all(env: Any, context: Any, n: int, hooks: Callable[[int], dict[str, Any]]) -> list[Any]:
    """Every task n times; the hooks of a rollout are further arguments of `run_slot`."""
    episodes = []
    async with env.serving():
        for task in env.taskset:
            for slot in env.slots(task, n=n):
                episodes.append(await env.run_slot(slot, context, **hooks(len(episodes))))
    return episodes


def stamp(episode: Any, step: int, group: str) -> None:
    """As prime-rl's dispatcher does, and later its algorithms."""
    episode.group = vf.GroupInfo(id=group)
    work = vf.TrainWorkInfo(step=step, policy=vf.PolicySpan(start=step - 1, end=step))
    episode.record_run(vf.TrainRunInfo(id="run-1", name="demo", work=work))


def give_credit(episode: Any, credit: float) -> None:
    for trace in episode.traces:
        for node in trace.nodes:
            if node.sampled and node.logprobs:
                node.advantages = [credit] * len(node.logprobs)
