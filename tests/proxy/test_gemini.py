"""Gemini's `generateContent` and `streamGenerateContent` through `rolltrace proxy`."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace.messages import read_reply
from tests.proxy.rig import EVENTS_HEAD, Asked, RawServer, event, json_answer, post, proxying

CLOSE = "Connection: close"
MODEL = "/v1beta/models/gemini-2.5-flash"
KEY = "x-goog-api-key: AIzaSyTest-0123456789"
TOOLS = [{"functionDeclarations": [{"name": "add", "parameters": {"type": "OBJECT"}}]}]
FIRST: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [{"parts": [{"text": "17+25?"}]}],
    "tools": TOOLS,
    "generationConfig": {"temperature": 1},
}
CALL = {"functionCall": {"name": "add", "args": {"a": 17, "b": 25}}}
USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 2}
SECOND = {
    **FIRST,
    "contents": [
        *FIRST["contents"],
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"result": 42}}}]},
    ],
}


def candidate(*parts: dict[str, Any], reason: str | None = "STOP") -> dict[str, Any]:
    ending = {} if reason is None else {"finishReason": reason}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **ending, "index": 0}]}


def gemini(streams: Callable[[socket.socket], object]) -> Callable[[socket.socket, Asked], object]:
    def answer(connection: socket.socket, asked: Asked) -> None:
        if ":generateContent" in asked.path:
            thought = {"text": "A sum.", "thought": True}
            connection.sendall(json_answer({**candidate(thought, CALL), "usageMetadata": USAGE, "responseId": "r1"}))
        else:
            streams(connection)

    return answer


PIECES = [
    candidate({"text": "The answer "}, reason=None),
    candidate({"text": "is 42."}, reason=None),
    {**candidate({"text": ""}, reason="MAX_TOKENS"), "usageMetadata": USAGE},
]


def stream_events(connection: socket.socket) -> None:
    connection.sendall(EVENTS_HEAD + b"".join(map(event, PIECES)))
    connection.close()


def stream_array(connection: socket.socket) -> None:
    connection.sendall(json_answer(PIECES))


def test_a_conversation_with_a_tool_is_recorded_as_turns_of_one_trajectory(tmp_path: Path) -> None:
    for number, (streams, query) in enumerate([(stream_events, "?alt=sse"), (stream_array, "")]):
        store = tmp_path / str(number) / "store"
        store.parent.mkdir()
        with proxying(RawServer(gemini(streams)), store) as proxy:
            first = proxy.ask(post(f"{MODEL}:generateContent", json.dumps(FIRST).encode(), KEY, CLOSE))
            assert b"functionCall" in first
            second = proxy.ask(post(f"{MODEL}:streamGenerateContent{query}", json.dumps(SECOND).encode(), KEY, CLOSE))
            assert b"is 42." in second
            proxy.ops()
            opened = rolltrace.open(store)
            (row,) = opened.trajectories().rows()
            trajectory = opened.trajectory(row["trajectory_id"])
        assert [op.name for op in trajectory.ops] == ["gemini.generate_content"] * 2
        assert trajectory.turns == 2
        assert {op.inputs["model"] for op in trajectory.ops} == {"gemini-2.5-flash"}
        counts = [
            (op.prompt_tokens, op.response_tokens, op.cached_tokens, op.reasoning_tokens) for op in trajectory.ops
        ]
        assert counts == [(11, 8, 2, 3)] * 2
        assert [op.finish_reason for op in trajectory.ops] == ["STOP", "MAX_TOKENS"]
        assert "cut_by_length" in trajectory.flags
        system, user, assistant, tool, last = trajectory.conversation
        assert (system["role"], system["content"]) == ("system", "Be brief.")
        assert (user["role"], user["content"]) == ("user", "17+25?")
        function = assistant["tool_calls"][0]["function"]
        assert (function["name"], json.loads(function["arguments"])) == ("add", {"a": 17, "b": 25})
        reply = read_reply(trajectory.ops[0].outputs)
        assert reply is not None
        assert reply.reasoning == "A sum."
        assert (tool["role"], tool["name"], json.loads(tool["content"])) == ("tool", "add", {"result": 42})
        assert (last["role"], last["content"]) == ("assistant", "The answer is 42.")


def test_a_protocol_that_is_not_known_is_passed_on_said_once_and_counted(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with proxying(RawServer(lambda connection, _: connection.sendall(json_answer({}))), store) as proxy:
        for path in ["/model/m/converse"] * 3 + ["/api/chat", "/v1/messages/count_tokens", "/v1/embeddings"]:
            assert b" 200 " in proxy.ask(post(path, b"{}", CLOSE))
    log = (tmp_path / "proxy.log").read_text()
    assert log.count("/model/m/converse") == 1
    assert log.count("/api/chat") == 1
    assert "count_tokens" not in log
    losses = rolltrace.open(store).losses().rows()
    assert [(row["reason"], row["count"]) for row in losses] == [("unrecorded_request", 4)]
