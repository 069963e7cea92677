"""A service of models on this machine, as far as the SDKs look: OpenAI's, Anthropic's and SGLang's protocols.

A token is a byte of UTF-8, so ids, logprobs and counts can be checked. Words in what the user said steer it: TOOL (the
first tool is called, once), SUBAGENT (Claude Code's tool for one is called), FLAKY (503 at the first attempt), CUT (the
connection breaks after three events), HOLD (the second event waits for `Service.confirmed`), LATER (the third one
does), ERROR (400), INCREMENTAL (events of SGLang have what is new). `seen` has the requests, `answers` what was
answered, streamed or not, in the form it has when it is not streamed.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

ANSWER = "The answer is 42."
ARGUMENTS = {
    "Bash": '{"command": "echo 42", "description": "says it"}',
    "Agent": '{"description": "add", "prompt": "what is 17+25, sub-agent?", "subagent_type": "general-purpose"}',
    "exec_command": '{"cmd": "echo 42"}',
}
"""Of the tools that Claude Code and Codex have."""
WAIT_SEC = 30.0


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.seen: list[Request] = []
        self.answers: list[dict[str, Any]] = []
        self.attempts: Counter[str] = Counter()
        self.confirmed = threading.Event()
        self.held_out = threading.Event()
        """HOLD: nobody confirmed the first event in time."""
        self.hung_up = threading.Event()
        """A client was gone before it had all of its answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.hung_up.set()


@contextmanager
def served() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


def ids(text: str) -> list[int]:
    return list(text.encode())


def logprob(place: int) -> float:
    return -0.01 * (place % 7 + 1)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_text(part.get("text") or part.get("content")) for part in content if isinstance(part, dict))
    return content or ""


def prompt_of(messages: list[dict[str, Any]]) -> str:
    return "".join(_turn(each) for each in messages) + "<assistant>"


def _turn(message: dict[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    told = "".join(f"<tool_call>{call['name']}{call['arguments']}" for call in calls)
    return f"<{message.get('role', message.get('type'))}>{_text(message.get('content') or message.get('output'))}{told}"


def _pieces(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def log_message(self, *args: Any) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_HEAD(self) -> None:
        self._reply({})

    def do_GET(self) -> None:
        self._reply({"object": "list", "data": [{"id": "fake", "object": "model", "created": 1, "owned_by": "us"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append(Request(self.path, headers, body))
        self.number = len(self.server.seen)
        self.messages = _messages(body)
        self.asked = _asked(self.messages)
        self.server.attempts[self.asked] += 1
        if "FLAKY" in self.asked and self.server.attempts[self.asked] == 1:
            return self._reply({"error": {"message": "try again", "type": "server_error"}}, 503, ("retry-after", "0"))
        if "ERROR" in self.asked:
            return self._reply({"error": {"message": "not like this", "type": "invalid_request_error"}}, 400)
        tools = body.get("tools") or []
        self.tool = _tool_name(tools, self.asked) if not _is_answered(self.messages) else None
        self.arguments = ARGUMENTS.get(self.tool or "", '{"a": 17, "b": 25}')
        wants_json = "json_schema" in json.dumps([body.get("response_format"), body.get("text")])
        self.answer = '{"answer": 42}' if wants_json else ANSWER
        path = self.path.partition("?")[0]
        for end, answer in (
            ("/chat/completions", self._chat), ("/completions", self._completion), ("/responses", self._response),
            ("/messages/count_tokens", self._count), ("/messages", self._message), ("/generate", self._generate),
        ):  # fmt: skip
            if path.endswith(end):
                return answer(body)
        return self._reply({"error": {"message": f"no such path {path}"}}, 404)

    def _reply(self, body: Any, status: int = 200, *headers: tuple[str, str]) -> None:
        if status == 200 and self.command == "POST":
            self.server.answers.append(body)
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(data))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, whole: dict[str, Any], events: list[dict[str, Any]], *, named: bool) -> None:
        self.server.answers.append(whole)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if number == 3 and "CUT" in self.asked:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            held = (number == 1 and "HOLD" in self.asked) or (number == 2 and "LATER" in self.asked)
            if held and not self.server.confirmed.wait(WAIT_SEC):
                self.server.held_out.set()
            self._chunk((f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n")
        if not named:
            self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _usage(self, text: str, count: int = 1) -> dict[str, Any]:
        prompt, response = len(ids(prompt_of(self.messages))), len(ids(text)) * count
        return {"prompt_tokens": prompt, "completion_tokens": response, "total_tokens": prompt + response}

    def _chat(self, body: dict[str, Any]) -> None:
        text = f"<tool_call>{self.tool}{self.arguments}" if self.tool else self.answer
        head = {"id": f"chatcmpl-{self.number}", "created": 1, "model": "fake"}
        with_ids, count = body.get("return_token_ids"), body.get("n") or 1
        reason = "tool_calls" if self.tool else "stop"
        call = {"id": f"call_{self.number}", "type": "function"}
        function = {"name": self.tool, "arguments": self.arguments}
        message: dict[str, Any] = {"role": "assistant", "content": None if self.tool else text}
        if self.tool:
            message["tool_calls"] = [{**call, "function": function}]
        choice: dict[str, Any] = {"message": message, "logprobs": _logprobs(text, 0, body), "finish_reason": reason}
        if with_ids:
            choice["token_ids"] = ids(text)
        whole = {
            **head, "object": "chat.completion", "choices": [{"index": at, **choice} for at in range(count)],
            "usage": self._usage(text, count),
            **({"prompt_token_ids": ids(prompt_of(self.messages))} if with_ids else {}),
        }  # fmt: skip
        if not body.get("stream"):
            return self._reply(whole)
        head["object"] = "chat.completion.chunk"
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        events: list[dict[str, Any]] = [{**head, "choices": [first]}]
        if with_ids:
            events[0]["prompt_token_ids"] = ids(prompt_of(self.messages))
        if self.tool:
            events.append({**head, "choices": [_delta({"tool_calls": [{"index": 0, **call, "function": {"name": self.tool, "arguments": ""}}]})]})  # fmt: skip # noqa: E501
        at = 0
        for piece in _pieces(text):
            told = {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]} if self.tool else {"content": piece}
            event = _delta(told)
            event["logprobs"] = _logprobs(piece, at, body)
            if with_ids:
                event["token_ids"] = ids(piece)
            at += len(ids(piece))
            events.append({**head, "choices": [event]})
        if self.tool:
            events += [{**head, "choices": [_delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})]} for piece in _pieces(self.arguments)]  # fmt: skip # noqa: E501
        events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append({**head, "choices": [], "usage": whole["usage"]})
        self._stream(whole, events, named=False)
        return None

    def _completion(self, body: dict[str, Any]) -> None:
        prompt = body["prompt"]
        prompt_ids = prompt if isinstance(prompt, list) else ids(prompt)
        choice: dict[str, Any] = {"index": 0, "text": ANSWER, "logprobs": None, "finish_reason": "stop"}
        if body.get("logprobs") is not None:
            values = [logprob(at) for at in range(len(ids(ANSWER)))]
            choice["logprobs"] = {"tokens": list(ANSWER), "token_logprobs": values, "top_logprobs": None}
        if body.get("return_token_ids"):
            choice |= {"token_ids": ids(ANSWER), "prompt_token_ids": prompt_ids}
        usage = {"prompt_tokens": len(prompt_ids), "completion_tokens": len(ids(ANSWER)), "total_tokens": 0}
        head = {"id": f"cmpl-{self.number}", "object": "text_completion", "created": 1, "model": "fake"}
        whole = {**head, "choices": [choice], "usage": usage}
        if not body.get("stream"):
            return self._reply(whole)
        events, at = [], 0
        for piece in _pieces(ANSWER):
            part: dict[str, Any] = {**choice, "text": piece, "finish_reason": None}
            inside = slice(at, at + len(ids(piece)))
            if choice["logprobs"] is not None:
                named = ("tokens", "token_logprobs")
                part["logprobs"] = {**choice["logprobs"], **{name: choice["logprobs"][name][inside] for name in named}}
            if "token_ids" in choice:
                part |= {"token_ids": ids(piece), "prompt_token_ids": None if at else prompt_ids}
            at = inside.stop
            events.append({**head, "choices": [part]})
        events[-1]["choices"][0]["finish_reason"] = "stop"
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append({**head, "choices": [], "usage": usage})
        self._stream(whole, events, named=False)
        return None

    def _response(self, body: dict[str, Any]) -> None:
        text = self.arguments if self.tool else self.answer
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item: dict[str, Any] = {"type": "message", "id": f"msg_{self.number}", "role": "assistant", "content": [part]}
        if self.tool:
            item = {"type": "function_call", "id": f"fc_{self.number}", "call_id": f"call_{self.number}",
                    "name": self.tool, "arguments": text}  # fmt: skip
        item["status"] = "completed"
        count = len(ids(prompt_of(self.messages)))
        usage = {
            "input_tokens": count, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": len(ids(text)),
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": count + len(ids(text)),
        }  # fmt: skip
        begun = {
            "id": f"resp_{self.number}", "object": "response", "created_at": 1, "model": "fake", "metadata": {},
            "status": "in_progress", "error": None, "incomplete_details": None, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0, "instructions": None, "output": [],
        }  # fmt: skip
        whole = {**begun, "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            return self._reply(whole)
        place = {"item_id": item["id"], "output_index": 0}
        empty = {**item, "status": "in_progress", **({"arguments": ""} if self.tool else {"content": []})}
        events = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": empty},
        ]
        if self.tool:
            events += [{"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in _pieces(text)]  # fmt: skip # noqa: E501
            events.append({"type": "response.function_call_arguments.done", **place, "arguments": text, "name": self.tool})  # fmt: skip # noqa: E501
        else:
            inside = {**place, "content_index": 0}
            events.append({"type": "response.content_part.added", **inside, "part": {**part, "text": ""}})
            events += [{"type": "response.output_text.delta", **inside, "delta": piece, "logprobs": []} for piece in _pieces(text)]  # fmt: skip # noqa: E501
            events.append({"type": "response.output_text.done", **inside, "text": text, "logprobs": []})
            events.append({"type": "response.content_part.done", **inside, "part": part})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": whole})
        self._stream(whole, [{**event, "sequence_number": at} for at, event in enumerate(events)], named=True)
        return None

    def _count(self, body: dict[str, Any]) -> None:
        self._reply({"input_tokens": len(ids(prompt_of(self.messages)))})

    def _message(self, body: dict[str, Any]) -> None:
        text = self.arguments if self.tool else self.answer
        block: dict[str, Any] = {"type": "text", "text": text}
        if self.tool:
            block = {"type": "tool_use", "id": f"toolu_{self.number}", "name": self.tool, "input": json.loads(text)}
        usage = {
            "input_tokens": len(ids(prompt_of(self.messages))), "output_tokens": len(ids(text)),
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3,
        }  # fmt: skip
        whole = {
            "id": f"msg_{self.number}", "type": "message", "role": "assistant", "model": "fake", "content": [block],
            "stop_reason": "tool_use" if self.tool else "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            return self._reply(whole)
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        empty = {**block, "input": {}} if self.tool else {**block, "text": ""}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "ping"},
        ]
        for piece in _pieces(text):
            delta = {"type": "input_json_delta", "partial_json": piece} if self.tool else {"type": "text_delta", "text": piece}  # fmt: skip # noqa: E501
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        events.append({"type": "content_block_stop", "index": 0})
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": len(ids(text))}})
        events.append({"type": "message_stop"})
        self._stream(whole, events, named=True)
        return None

    def _generate(self, body: dict[str, Any]) -> None:
        prompt = body.get("input_ids") or body.get("text") or ""
        if isinstance(prompt, list) and isinstance(prompt[0], list):  # several prompts
            return self._reply([self._generated(each, body) for each in prompt])
        whole = self._generated(prompt, body)
        if not body.get("stream"):
            return self._reply(whole)
        new_only = "INCREMENTAL" in self.asked
        events, begin, end = [], 0, 0
        for piece in _pieces(ANSWER):
            begin, end = end if new_only else 0, end + len(ids(piece))
            event = {**whole, "text": piece if new_only else ANSWER[:end], "output_ids": whole["output_ids"][begin:end]}
            event["meta_info"] = info = {**whole["meta_info"], "completion_tokens": end}
            if "output_token_logprobs" in info:
                info["output_token_logprobs"] = info["output_token_logprobs"][begin:end]
            if end < len(ANSWER):
                info["finish_reason"] = None
            events.append(event)
        self._stream(whole, events, named=False)
        return None

    def _generated(self, prompt: Any, body: dict[str, Any]) -> dict[str, Any]:
        """As SGLang's tokenizer manager puts it together."""
        info: dict[str, Any] = {
            "id": f"r{self.number}", "finish_reason": {"type": "stop", "matched": 46},
            "prompt_tokens": len(prompt if isinstance(prompt, list) else ids(prompt)), "weight_version": "7",
            "total_retractions": 0,
        }  # fmt: skip
        if body.get("return_logprob"):
            info["input_token_logprobs"] = []
            info["output_token_logprobs"] = [[logprob(at), token, None] for at, token in enumerate(ids(ANSWER))]
        info |= {"completion_tokens": len(ids(ANSWER)), "cached_tokens": 1, "e2e_latency": 0.25}
        return {"text": ANSWER, "output_ids": ids(ANSWER), "meta_info": info}


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("messages") or body.get("input") or body.get("prompt") or body.get("text") or ""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [each for each in given if isinstance(each, dict)]


def _asked(messages: list[dict[str, Any]]) -> str:
    """What the user said last; not the results of tools."""
    users = [each for each in messages if each.get("role") == "user" and "tool_result" not in json.dumps(each)]
    return _text(users[-1].get("content")) if users else ""


def _is_answered(messages: list[dict[str, Any]]) -> bool:
    told = json.dumps(messages)
    return '"role": "tool"' in told or '"function_call_output"' in told or '"tool_result"' in told


def _tool_name(tools: list[dict[str, Any]], asked: str) -> str | None:
    names = [(each.get("function") or each).get("name") for each in tools]
    if "SUBAGENT" in asked and "Agent" in names:
        return "Agent"
    return next((name for name in ("Bash", *names) if name in names), None) if "TOOL" in asked else None


def _logprobs(text: str, start: int, body: dict[str, Any]) -> dict[str, Any] | None:
    if not body.get("logprobs"):
        return None
    values = enumerate(ids(text), start)
    return {"content": [{"token": chr(token), "logprob": logprob(at), "bytes": [token], "top_logprobs": []} for at, token in values]}  # fmt: skip # noqa: E501


def _delta(told: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": told, "finish_reason": None}
