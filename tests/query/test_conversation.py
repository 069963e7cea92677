"""Messages in parts, and tool calls with their results."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import rolltrace
from rolltrace.query import messages_of_trajectory
from rolltrace.query.model.trajectory import Message


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, Any]], reply: Any) -> Any:
    return reply


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> Any:
    if query == "bad":
        raise ValueError("no such page")
    return {"found": query}


@rolltrace.rollout_trace_op(kind="tool")
def python(code: str) -> str:
    return f"ran {code}"


def told(tmp_path: Any, play: Any) -> list[Message]:
    """The messages of what a function plays."""
    (messages,) = all_told(tmp_path, [play])
    return messages


def all_told(tmp_path: Any, plays: list[Any]) -> list[list[Message]]:
    """The same of several functions, each in a trajectory of its own."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    ids = []
    for n, play in enumerate(plays):
        with rolltrace.rollout_trace_attr(1, 1, n) as trajectory:
            play()
        ids.append(trajectory.id)
    store = rolltrace.open(tmp_path)
    return [messages_of_trajectory(store.trajectory(each)) for each in ids]


def op_names(tmp_path: Any) -> dict[str | None, str]:
    """The names of the ops of the one trajectory that was played, by their ids."""
    (row,) = (store := rolltrace.open(tmp_path)).trajectories()
    return {str(op.op_id): op.name for op in store.trajectory(row["trajectory_id"]).walk()}


def shown(message: Message) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in message.parts]


USER = {"role": "user", "content": "hello"}


def call_of(name: str, arguments: Any, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_results_go_to_the_calls_with_their_ids_whatever_the_order(tmp_path: Any) -> None:
    def play() -> None:
        calls = [call_of("search", '{"query": "a"}', "c1"), call_of("python", '{"code": "b"}', "c2")]
        reply = {"role": "assistant", "content": "", "tool_calls": calls}
        generate([USER], reply)
        python("b")
        search("a")
        history = [
            USER,
            reply,
            {"role": "tool", "tool_call_id": "c2", "name": "python", "content": "ran b"},
            {"role": "tool", "tool_call_id": "c1", "name": "search", "content": '{"found": "a"}'},
        ]
        generate(history, {"role": "assistant", "content": "done"})

    user, asking, last = told(tmp_path, play)
    assert (user.role, asking.role, last.role) == ("user", "assistant", "assistant")
    first, second = asking.calls
    assert (first.name, first.result[0].text, op_names(tmp_path)[first.op_id]) == ("search", '{"found": "a"}', "search")
    assert (second.name, second.result[0].text, op_names(tmp_path)[second.op_id]) == ("python", "ran b", "python")
    assert first.result[0].kind == "json"
    assert (asking.turn, last.turn) == (0, 1)
    assert op_names(tmp_path)[asking.op_id] == "generate"


def test_a_tool_that_raised_has_its_error(tmp_path: Any) -> None:
    def play() -> None:
        generate([USER], {"role": "assistant", "content": "", "tool_calls": [call_of("search", {"query": "bad"}, "c")]})
        with pytest.raises(ValueError, match="no such page"):
            search("bad")

    (call,) = told(tmp_path, play)[1].calls
    assert call.error == "ValueError: no such page"


def test_a_call_without_words_about_it_is_taken_from_its_op(tmp_path: Any) -> None:
    def play() -> None:
        generate([USER], {"role": "assistant", "content": "I look."})
        search("x")

    (call,) = told(tmp_path, play)[1].calls
    assert (call.name, call.arguments.text) == ("search", '{"query": "x"}')


def test_calls_in_the_text_itself_are_taken_out_of_it(tmp_path: Any) -> None:
    text = 'I look.\n<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'

    def play() -> None:
        generate([USER], {"role": "assistant", "content": text})
        search("x")

    message = told(tmp_path, play)[1]
    assert shown(message) == [("text", "I look.")]
    assert [(call.name, op_names(tmp_path)[call.op_id]) for call in message.calls] == [("search", "search")]


def test_a_call_in_the_text_that_is_no_json_stays_there(tmp_path: Any) -> None:
    text = "<tool_call>\nnot json\n</tool_call>"
    assert shown(told(tmp_path, lambda: generate([USER], text))[1]) == [("text", text)]


REPLIES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"content": "<think>\nhm\n</think>\nyes"}, [("reasoning", "hm"), ("text", "yes")]),
    ({"content": "<think>never ends"}, [("reasoning", "never ends")]),
    ({"content": "yes", "reasoning_content": "hm"}, [("reasoning", "hm"), ("text", "yes")]),
    ({"content": '{"a": [1]}'}, [("json", '{"a": [1]}')]),
    ({"content": "{not json}"}, [("text", "{not json}")]),
    ({"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}, {"type": "x", "y": 1}]},
     [("reasoning", "b"), ("text", "a"), ("json", '{"type": "x", "y": 1}')]),
    ({"content": "<b>&amp;</b>\x1b[31m"}, [("text", "<b>&amp;</b>\x1b[31m")]),
]  # fmt: skip
"""Replies, and the parts of the messages that they are shown as."""


def test_content_is_taken_apart(tmp_path: Any) -> None:
    plays = [partial(generate, [USER], {"role": "assistant", **reply}) for reply, _ in REPLIES]
    assert [shown(messages[1]) for messages in all_told(tmp_path, plays)] == [parts for _, parts in REPLIES]


def test_a_result_that_nobody_asked_for_is_a_message_of_its_own(tmp_path: Any) -> None:
    history = [USER, {"role": "tool", "name": "oracle", "content": "42"}]
    roles = [each.role for each in told(tmp_path, lambda: generate(history, "yes"))]
    assert roles == ["user", "tool", "assistant"]
