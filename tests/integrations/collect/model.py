"""A server that answers as a model does: it calls the first tool it is given once, then says the answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "The answer is 42."
USAGE = {"prompt_tokens": 45, "completion_tokens": 18, "total_tokens": 63}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = 0

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).answered += 1
        said = request["messages"]
        calls = bool(request.get("tools")) and not any("tool" in json.dumps(each.get("role", "")) for each in said)
        calls = calls and "tool_result" not in json.dumps(said)
        if self.path.endswith("/messages"):
            self._send(json.dumps(_anthropic(request, calls, self.answered)), "application/json")
        elif request.get("stream"):
            self._send(_stream(self.answered), "text/event-stream")
        else:
            self._send(json.dumps(_openai(request, calls, self.answered)), "application/json")

    def _send(self, body: str, kind: str) -> None:
        data = body.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _openai(request: dict[str, Any], calls: bool, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if calls:
        function = {"name": request["tools"][0]["function"]["name"], "arguments": '{"a": 17, "b": 25}'}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    own = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "fake"}
    return {**own, "choices": [choice], "usage": USAGE}


def _stream(number: int) -> str:
    own = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    words = [f"{word} " for word in ANSWER.split(" ")]
    words[-1] = words[-1].strip()
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    chunks = [{**own, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**own, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({**own, "choices": [], "usage": USAGE})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _anthropic(request: dict[str, Any], calls: bool, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
    if calls:
        tool = {"name": request["tools"][0]["name"], "input": {"a": 17, "b": 25}}
        content = [{"type": "tool_use", "id": f"toolu_{number}", **tool}]
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "fake", "content": content,
        "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 45, "output_tokens": 18},
    }  # fmt: skip


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server, while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
