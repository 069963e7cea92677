"""Spans become trajectories, whatever order they come in and however often."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.collect import Collector
from rolltrace.collect.collector import QUIET_SEC
from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.collect.place import Home
from rolltrace.query import Store, Trajectory, open_store
from rolltrace.settings import Settings
from tests.nightly import nightly

from .rig import recorded, span


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """A collector, and what its store has."""

    def __init__(self, store: Path) -> None:
        self.path, self.clock = store, Clock()
        self._opened: Store | None = None
        self.collector = self.start()

    def start(self) -> Collector:
        arguments = {"project_name": "p", "experiment_name": "e", "store": self.path, "drain": "off"}
        settings = Settings.gather({**arguments, "backend": "rolltrace"})
        return Collector(settings, Home("p", "e"), clock=self.clock)

    def killed(self) -> None:
        """As after a SIGKILL: nothing was written, closed or removed, and the kernel has freed the locks."""
        import os

        os.close(self.collector._spool._fd)
        self.collector = self.start()

    @property
    def store(self) -> Store:
        """What it has now; opened once, as that takes longest."""
        if self._opened is None:
            self._opened = open_store(self.path)
        self._opened.refresh()
        return self._opened

    def only(self) -> Trajectory:
        (row,) = self.store.trajectories().rows()
        return self.store.trajectory(row["trajectory_id"])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "store")
    yield made
    made.collector.close()


@pytest.mark.parametrize(
    ("name", "turns", "tools", "tokens"),
    [("openinference", 2, 0, 49), ("traceloop", 2, 0, 49), ("otel-genai", 2, 0, 49), ("anthropic-native", 1, 0, 18),
     ("pydantic-ai", 2, 1, 49)],
)  # fmt: skip
def test_spans_of_real_instrumentations_become_turns_and_tool_calls(
    name: str, turns: int, tools: int, tokens: int, rig: Rig
) -> None:
    rig.collector.take(recorded(name))
    (row,) = rig.store.trajectories().rows()
    assert (row["project"], row["experiment"], row["name"]) == ("math", "run-1", "rollout")
    assert (row["step"], row["sample_index"], row["rollout_n"]) == (3, "q-1", 0)
    assert (row["turns"], row["tool_calls"], row["response_tokens"], row["status"]) == (turns, tools, tokens, "ok")
    conversation = rig.only().conversation
    assert conversation[:2] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "TOOL 17+25?"},
    ]  # fmt: skip
    assert conversation[2]["tool_calls"][0]["function"]["name"] == "add"
    if turns == 2:
        assert [message["role"] for message in conversation[3:]] == ["tool", "assistant"]
        assert conversation[-1]["content"] == "The answer is 42."


def test_logprobs_of_the_response_are_kept(rig: Rig) -> None:
    rig.collector.take(recorded("openinference"))
    first = rig.only().ops[0].children[0]
    assert first.finish_reason == "tool_calls"
    assert len(first.outputs["choices"][0]["logprobs"]["content"]) > 0


def shape(store: Store) -> Any:
    rows = store.sql("SELECT op_id, parent_id, name, kind, step, sample_index FROM spans ORDER BY op_id").rows()
    listed = [(row["step"], row["sample_index"], row["turns"], row["status"]) for row in store.trajectories().rows()]
    return [tuple(row.values()) for row in rows], listed


def test_the_order_and_the_batches_in_which_spans_come_change_nothing(tmp_path: Path) -> None:
    root = span(1, None, name="rollout", rl_step=3, rl_sample_index="q")
    spans = [root, span(2, 1), span(3, 2, gen_ai__operation__name="chat"), span(4, 1)]
    shapes = []
    for number, order in enumerate(itertools.permutations(spans)):
        if number % nightly(1, 8) == 0:
            rig = Rig(tmp_path / str(number))
            rig.collector.take(order[:1])
            rig.collector.take(order[1:3])
            rig.collector.take(order[3:])
            shapes.append(shape(rig.store))
            rig.collector.close()
    assert all(each == shapes[0] for each in shapes)
    assert shapes[0][1] == [(3, "q", 1, "ok")]


def test_a_trace_waits_for_its_root_and_a_kill_loses_none_of_it(rig: Rig) -> None:
    assert rig.collector.take([span(2), span(3)]) == (0, 2, 0)
    assert rig.store.sql("SELECT count(*) AS n FROM spans").rows()[0]["n"] == 0
    rig.killed()
    assert rig.collector.take([span(1, None, rl_step=5)]) == (1, 0, 0)
    assert {row["step"] for row in rig.store.sql("SELECT step FROM spans").rows()} == {5}
    assert len(rig.only().ops[0].children) == 2
    assert not [path for path in (rig.path / "collect").iterdir() if path.stat().st_size]


def test_a_killed_collector_that_had_written_some_of_what_waited_doubles_nothing(rig: Rig) -> None:
    rig.collector.take([span(2), span(3)])
    data = rig.collector._spool.path.read_bytes()
    rig.collector.take([span(1, None, rl_step=5)])
    rig.collector._spool.path.write_bytes(data)  # killed between the journal and the spool
    rig.killed()
    assert rig.store.sql("SELECT count(*) AS n FROM spans").rows()[0]["n"] == 3


def test_a_torn_record_at_the_end_of_a_spool_is_left_out(rig: Rig) -> None:
    rig.collector.take([span(2), span(3)])
    path = rig.collector._spool.path
    path.write_bytes(path.read_bytes()[:-3])
    rig.killed()
    rig.collector.settle(all_of_them=True)
    assert rig.store.sql("SELECT count(*) AS n FROM spans").rows()[0]["n"] == 1


def test_what_is_sent_again_is_recorded_once_also_by_the_next_collector(rig: Rig) -> None:
    spans = [span(2), span(1, None, rl_step=1)]
    rig.collector.take(spans)
    assert rig.collector.take([*spans, *spans]) == (0, 0, 4)
    rig.killed()
    assert rig.collector.take(spans) == (0, 0, 2)
    assert rig.store.sql("SELECT count(*) AS n FROM spans").rows()[0]["n"] == 2


def test_a_trace_whose_root_never_comes_is_written_after_a_while(rig: Rig) -> None:
    rig.collector.take([span(2, name="a"), span(3, 2)])
    rig.clock.now = QUIET_SEC - 1
    assert rig.collector.settle() == 2
    rig.clock.now = QUIET_SEC
    assert rig.collector.settle() == 0
    (row,) = rig.store.trajectories().rows()
    assert (row["name"], row["step"], row["project"]) == ("a", None, "p")


def test_a_late_span_goes_to_its_trajectory_also_after_a_restart(rig: Rig) -> None:
    rig.collector.take([span(1, None, rl_step=7, rl_sample_index=4)])
    rig.collector.take([span(2)])
    rig.killed()
    rig.collector.take([span(3)])
    rig.collector.settle(all_of_them=True)
    rows = rig.store.sql("SELECT DISTINCT step, sample_index, sample_number FROM ops").rows()
    assert [tuple(row.values()) for row in rows] == [(7, "4", 4)]
    assert len(rig.only().ops[0].children) == 2


def test_spans_with_all_coordinates_do_not_wait(rig: Rig) -> None:
    where = {"rl_step": "3", "rl_sample_index": "q", "rl_rollout_n": "1"}  # baggage is text
    assert rig.collector.take([span(2, **where)]) == (1, 0, 0)
    (row,) = rig.store.trajectories().rows()
    assert (row["step"], row["sample_index"], row["rollout_n"]) == (3, "q", 1)


def test_a_context_of_rolltrace_puts_spans_into_the_trajectory_of_another_process(rig: Rig) -> None:
    rolltrace.init("q", "f", "rolltrace", store=rig.path, drain="off", run="r")
    with rolltrace.rollout_trace_attr("s", step=9) as trajectory:
        context = rolltrace.current_context()
        sent = span(1, None, rl_context=context, gen_ai__operation__name="execute_tool", gen_ai__tool__name="add")
        rig.collector.take([sent, span(2, 1)])
    rolltrace.shutdown()
    whole = rig.store.trajectory(trajectory.trajectory_id)
    assert (whole.project, whole.step, [op.name for op in whole.ops]) == ("q", 9, ["add"])
    assert len(rig.store.trajectories().rows()) == 1


def test_rewards_and_scores_among_the_attributes_are_scores(rig: Rig) -> None:
    scores = {"rl_reward": 0.5, "rl_reward_terms__format": 1, "rl_score__style": 0.25, "rl_tag__source": "web"}
    rig.collector.take([span(1, None, **scores)])
    trajectory = rig.only()
    assert {each["name"]: (each["value"], each["terms"]) for each in trajectory.scores} == {
        "reward": (0.5, {"format": 1.0}), "style": (0.25, {}),
    }  # fmt: skip
    assert trajectory.tags["source"] == "web"


def test_a_failed_span_is_a_failed_op(rig: Rig) -> None:
    from rolltrace.collect.otlp import SpanEvent

    failed = span(2)
    failed.is_error = True
    failed.events = [SpanEvent(1, "exception", {"exception.type": "ValueError", "exception.message": "no"})]
    rig.collector.take([failed, span(1, None)])
    (op,) = rig.only().ops[0].children
    assert (op.status, op.error) == ("error", "ValueError: no")


def langchain_answer(number: int) -> str:
    """`output.value` of openinference-instrumentation-langchain, for a call of OpenAI."""
    kwargs = {"content": f"answer {number}", "type": "ai", "id": f"run--{number}-0", "response_metadata": {}}
    message = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": kwargs}
    generation = {"text": f"answer {number}", "type": "ChatGeneration", "message": message}
    output = {"model_name": "m", "id": f"chatcmpl-{number}"}
    return json.dumps({"generations": [[generation]], "llm_output": output, "run": None, "type": "LLMResult"})


def seen_twice(number: int) -> tuple[ReceivedSpan, ReceivedSpan]:
    """A call as the instrumentations of LangChain and of OpenAI tell of it, one beside the other."""
    choice = {"index": 0, "message": {"role": "assistant", "content": f"answer {number}"}, "logprobs": None}
    response = {"id": f"chatcmpl-{number}", "object": "chat.completion", "model": "m", "choices": [choice]}
    by_langchain = span(2 * number, 1, name="ChatOpenAI")
    by_langchain.attributes = {
        "openinference.span.kind": "LLM", "output.value": langchain_answer(number), "llm.token_count.prompt": 7,
        "llm.token_count.completion": number, "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": f"answer {number}",
    }  # fmt: skip
    by_openai = span(2 * number + 1, 1, name="ChatCompletion")
    by_openai.attributes = {"openinference.span.kind": "LLM", "output.value": json.dumps(response)}
    return by_langchain, by_openai


@pytest.mark.parametrize("order", ["together", "langchain first", "openai first"])
def test_a_call_that_two_instrumentations_saw_side_by_side_is_one_turn(rig: Rig, order: str) -> None:
    pairs = [seen_twice(number) for number in range(1, 22)]
    root = span(1, None, name="chain", rl_step=1)
    if order == "together":
        rig.collector.take([*(each for pair in pairs for each in pair), root])
    else:
        rig.collector.take([root])
        for pair in pairs:
            for each in pair if order == "langchain first" else reversed(pair):
                rig.collector.take([each])
    trajectory = rig.only()
    assert trajectory.turns == 21
    assert len(trajectory.ops[0].children) == 42
    if order == "together":
        turns = [op for op in trajectory.ops[0].children if op.kind == "llm"]
        assert {op.name for op in turns} == {"ChatCompletion"}  # it has the response itself
        assert [op.response_tokens for op in turns] == list(range(1, 22))  # and what LangChain alone counted
