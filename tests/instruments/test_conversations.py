"""Which conversation a model call goes on with, read off its messages."""

from __future__ import annotations

from typing import Any

from rolltrace.capture import TrajectoryHandle, scope
from rolltrace.instruments.conversations import Conversation, Conversations
from rolltrace.messages import read_reply
from rolltrace.record import Coordinates
from rolltrace.testing import Recording


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Talk:
    """Model calls, one after the other."""

    def __init__(self, conversations: Conversations) -> None:
        self.conversations = conversations

    def call(self, *messages: dict[str, Any], reply: dict[str, Any] | None = None, **more: Any) -> Conversation:
        assert scope.recorder is not None
        found = self.conversations.of(scope.recorder, "model", {"messages": list(messages), **more})
        assert found is not None
        if reply is not None:
            self.conversations.answered(found, read_reply(reply))
        return found


def test_a_call_that_extends_another_and_its_answer_goes_on_with_it(traced: Recording) -> None:
    talk = Talk(Conversations())
    first = talk.call(user("one"), reply=assistant("1"))
    assert talk.call(user("one"), assistant("1"), user("two"), reply=assistant("2")) is first
    assert talk.call(user("one"), assistant("1"), user("two"), assistant("2"), user("three")) is first


def test_the_same_prompt_again_is_another_conversation_outside_a_trajectory(traced: Recording) -> None:
    talk = Talk(Conversations())
    first, second = (talk.call(user("one"), reply=assistant(text)) for text in ("1", "uno"))
    assert first is not second
    assert talk.call(user("one"), assistant("uno"), user("two")) is second
    assert talk.call(user("one"), assistant("1"), user("two")) is first


def test_a_call_that_was_not_answered_is_asked_again(traced: Recording) -> None:
    talk = Talk(Conversations())
    assert talk.call(user("one")) is talk.call(user("one"))


def test_what_the_system_says_and_how_an_answer_is_written_does_not_matter(traced: Recording) -> None:
    talk = Talk(Conversations())
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    reply = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", **call}]}
    first = talk.call(user("one"), reply=reply, system="it is 12:01")
    blocks = [{"type": "tool_use", "id": "x", "name": "add", "input": {"b": 2, "a": 1}}]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "3"}]}
    again = {"role": "user", "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]}
    assert talk.call(again, {"role": "assistant", "content": blocks}, result, system="it is 12:02") is first


def test_an_answer_that_the_agent_has_changed_still_goes_on(traced: Recording) -> None:
    talk = Talk(Conversations())
    first = talk.call(user("one"), reply=assistant("<think>hm</think>1"))
    assert talk.call(user("one"), assistant("1"), user("two")) is first


def test_in_a_trajectory_the_first_is_its_own_and_others_are_branches(traced: Recording) -> None:
    root = TrajectoryHandle(scope.recorder, Coordinates(step=3, sample_index=7))
    talk = Talk(Conversations(root))
    first = talk.call(user("one"), reply=assistant("1"))
    branch = talk.call(user("other"), reply=assistant("2"))
    assert first.place is root
    assert branch.parent == (root.trace_id, 0)
    assert branch.place._trajectory is not None
    assert branch.place._trajectory.coordinates == root.coordinates
    assert talk.call(user("other"), assistant("2"), user("go on")) is branch
    assert talk.call(user("one"), assistant("1"), user("go on")) is first
