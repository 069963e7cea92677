"""An agent loop of one's own, traced: a model behind an OpenAI-compatible server, a tool, several rollouts, a reward.

    python examples/agent_loop.py

The server is a stand-in that runs in this process, so that nothing else is needed. What is traced, and how, would be
the same with a real one.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import rolltrace

QUESTIONS = ["How far is it from Turin to Milan?", "How far is it from Turin to Genoa?"]
DISTANCES = {"Milan": 140, "Genoa": 170}


class Agent:
    def __init__(self, url: str) -> None:
        self.url = url

    @rolltrace.rollout_trace_op(kind="llm")
    async def complete(self, messages: list[dict[str, Any]], temperature: float = 1.0) -> dict[str, Any]:
        return await asyncio.to_thread(post, f"{self.url}/v1/chat/completions", {"messages": messages})

    @rolltrace.rollout_trace_op(kind="tool")
    async def distance(self, city: str) -> int:
        return DISTANCES[city]

    @rolltrace.rollout_trace_op
    async def answer(self, question: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        while True:
            reply = (await self.complete(messages))["choices"][0]["message"]
            messages.append(reply)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            for call in reply["tool_calls"]:
                kilometres = await self.distance(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(kilometres)})


async def rollout(agent: Agent, sample_index: int, rollout_n: int) -> None:
    question = QUESTIONS[sample_index]
    with rolltrace.rollout_trace_attr(step=1, sample_index=sample_index, rollout_n=rollout_n) as trajectory:
        answer = await agent.answer(question)
        right = float(any(city in question and str(km) in answer for city, km in DISTANCES.items()))
        trajectory.reward(right, terms={"correct": right})


async def main() -> None:
    store = tempfile.mkdtemp(prefix="rolltrace-example-")
    rolltrace.init("examples", "agent-loop", store=store)
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = Agent(f"http://127.0.0.1:{server.server_port}")
    await asyncio.gather(*(rollout(agent, sample, n) for sample in range(len(QUESTIONS)) for n in range(4)))
    server.shutdown()
    rolltrace.shutdown()

    with rolltrace.open(store) as traces:
        for group in traces.groups(step=1):
            print(f"sample {group['sample_index']}: {group['passed']} of {group['size']} right")
        best = traces.trajectory(traces.groups(step=1, sample_index=0)[0]["best"])
        for message in best.conversation:
            print(f"  {message['role']:>9}: {message.get('content') or message.get('tool_calls')}")
    print(f"look at it with: rolltrace view {store}")


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return dict(json.load(response))


class StandIn(BaseHTTPRequestHandler):
    """Answers as a model would that asks the tool most of the time."""

    def do_POST(self) -> None:
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        city = "Milan" if "Milan" in messages[0]["content"] else "Genoa"
        message: dict[str, Any] = {"role": "assistant", "content": f"It is {random.choice([90, 200])} km."}
        if messages[-1]["role"] == "tool":
            message["content"] = f"It is {messages[-1]['content']} km."
        elif random.random() < 0.7:
            call = {"name": "distance", "arguments": json.dumps({"city": city})}
            message = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    asyncio.run(main())
