"""Tokens that only their own process can decode: in the background, once, and never at the rollout's cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import rolltrace
from rolltrace.capture import own_text
from rolltrace.testing import Recording, Said, recording


class Letters:
    """A tokenizer in Python: every token is a character."""

    def __init__(self) -> None:
        self.decoded = 0
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()

    def decode(self, ids: list[int]) -> str:
        self.gate.wait(30)
        self.decoded += len(ids)
        self.threads.add(threading.current_thread().name)
        return "".join(map(chr, ids))


class Agent:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @rolltrace.rollout_trace_op(kind="llm")
    def generate(self, prompt_ids: list[int], reply: str = "yes") -> dict[str, Any]:
        return {"token_ids": list(map(ord, reply))}

    @rolltrace.rollout_trace_op(kind="tool")
    def search(self, query: str) -> str:
        return query


def ids(text: str) -> list[int]:
    return list(map(ord, text))


@pytest.fixture
def on() -> Iterator[Recording]:
    with recording(token2text=True) as made:
        yield made
        made.recorder.close()


def texts(traced: Recording) -> list[Said]:
    assert traced.recorder.tokenizers is not None
    assert traced.recorder.tokenizers.texts.wait(30)
    return [said for said in traced.events if said.event == "text"]


def test_the_text_comes_as_an_event_of_its_op(on: Recording) -> None:
    tokenizer = Letters()
    with rolltrace.rollout_trace_attr(step=3) as trajectory:
        Agent(tokenizer).generate(ids("为什么?"))
    (said,) = texts(on)
    assert said.body == {"text": "为什么?yes", "prompt_chars": 4, "piece_chars": [1] * 7}
    assert (said.trajectory_id, said.op_id) == (trajectory.id, on.op.op_id)
    assert tokenizer.threads == {"rolltrace-text"}


def test_ops_without_tokens_say_nothing(on: Recording) -> None:
    Agent(Letters()).search("token_ids of what?")
    assert texts(on) == []


def test_a_prompt_that_grows_is_decoded_once(on: Recording) -> None:
    tokenizer = Letters()
    agent = Agent(tokenizer)
    prompt = "x" * 2000
    with rolltrace.rollout_trace_attr(step=3):
        for turn in range(20):
            agent.generate(ids(prompt), f"reply {turn}")
            prompt += f"reply {turn}" + "y" * 100
    assert len(texts(on)) == 20
    assert texts(on)[-1].body["text"] == prompt.removesuffix("y" * 100)
    assert on.recorder.tokenizers is not None
    assert on.recorder.tokenizers.texts.decoded_tokens == len(prompt) - 100


def test_a_tokenizer_that_raises_costs_the_text_and_is_counted(on: Recording, caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def decode(self, ids: list[int]) -> str:
            raise KeyError(ids[0])

    agent = Agent(Failing())
    for _ in range(3):
        assert agent.generate(ids("why"))["token_ids"] == ids("yes")
    assert [said.body for said in texts(on)] == [{"text": None, "why": f"KeyError: {ord('w')}"}] * 3
    assert on.sink.losses == {"text_failed": {"": 3}}
    assert caplog.text.count("could not be decoded") == 1


def test_what_is_no_text_is_refused(on: Recording) -> None:
    class Odd:
        def decode(self, ids: list[int]) -> Any:
            return ["a", "list"]

    Agent(Odd()).generate(ids("why"))
    assert texts(on)[0].body == {"text": None, "why": "TypeError: decode gave list, not str"}


def test_lone_surrogates_are_written_out(on: Recording) -> None:
    Agent(Letters()).generate([0xD800, 0x41], "")
    assert texts(on)[0].body["text"] == "\\ud800A"
    assert sum(texts(on)[0].body["piece_chars"]) == 7


def test_when_too_much_waits_texts_are_given_up_and_the_rollout_goes_on(
    on: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_text, "_MAX_WAITING_BYTES", 1000)
    tokenizer = Letters()
    tokenizer.gate.clear()
    agent = Agent(tokenizer)
    with rolltrace.rollout_trace_attr(step=7):
        for _ in range(50):
            agent.generate(ids("p" * 100))
    tokenizer.gate.set()
    bodies = [said.body for said in texts(on)]
    given_up = [body for body in bodies if body["text"] is None]
    assert len(bodies) == 50
    assert 0 < len(given_up) < 50
    assert on.sink.losses == {"text_queue": {"7": len(given_up)}}


def test_the_end_of_tracing_waits_for_the_texts(on: Recording) -> None:
    tokenizer = Letters()
    tokenizer.gate.clear()
    for _ in range(10):
        Agent(tokenizer).generate(ids("prompt"))
    threading.Timer(0.05, tokenizer.gate.set).start()
    on.recorder.close()
    assert len([said for said in on.events if said.body["text"] == "promptyes"]) == 10


def test_an_end_that_cannot_wait_counts_what_is_left(on: Recording) -> None:
    tokenizer = Letters()
    tokenizer.gate.clear()
    for _ in range(3):
        Agent(tokenizer).generate(ids("prompt"))
    assert on.recorder.tokenizers is not None
    on.recorder.tokenizers.close(0.01)
    assert on.sink.losses["text_queue"][""] >= 2
    tokenizer.gate.set()
    thread = on.recorder.tokenizers.texts._thread
    assert thread is not None
    thread.join()


def test_a_tokenizer_that_is_traced_itself_is_not_recorded(on: Recording) -> None:
    class Traced(Letters):
        @rolltrace.rollout_trace_op
        def decode(self, ids: list[int]) -> str:
            return super().decode(ids)

    Agent(Traced()).generate(ids("why"))
    assert texts(on)[0].body["text"] == "whyyes"
    assert [op.name for op in on.ops] == ["Agent.generate"]
