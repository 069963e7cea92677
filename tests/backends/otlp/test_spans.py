"""A trajectory as spans: ids, tree, attributes, limits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace._own_spans import root_id
from rolltrace.backends.otlp.spans import root_and_scores, spans_of
from rolltrace.backends.otlp.wire import CLIENT, ERROR, OK, SentSpan
from rolltrace.query import Trajectory
from rolltrace.testing import rollouts


@rollout_trace_op(kind="llm")
def chat(messages: list[dict[str, Any]], prompt_ids: list[int], model: str, temperature: float) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "回答",
        "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": "{}"}}],
        "token_ids": [1, 2],
        "finish_reason": "stop",
    }


@rollout_trace_op(kind="llm")
def complete(prompt: str) -> dict[str, Any]:
    return {"text": "a reply", "usage": {"prompt_tokens": 5, "completion_tokens": 7}}


@rollout_trace_op(kind="tool")
def search(query: Any) -> Any:
    if query == "fail":
        raise ValueError("no: such page")
    return query


def spans(trajectory: Trajectory, longest: int = 65536, mlflow: bool = False) -> dict[str, SentSpan]:
    return {span.name: span for span in spans_of(trajectory, longest=longest, mlflow=mlflow)}


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    with rollouts(tmp_path, "项目", "run-1") as found:
        yield found


def test_ids_are_ours(lab: Any) -> None:
    with rollout_trace_attr(step=1, name="rollout") as made:
        search("x")
    trajectory = lab.read(made.id)
    found = spans(trajectory)
    root, op = found["rollout"], found["search"]
    assert root.trace_id == op.trace_id == bytes.fromhex(made.id)
    assert op.span_id == trajectory.ops[0].op_id.to_bytes(8, "big")
    assert (root.parent_id, op.parent_id) == (b"", root.span_id)
    assert root.span_id == root_id(made.id) != bytes(8)


def test_the_root_carries_the_viewers_address(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with rollout_trace_attr(step=1, name="rollout") as made:
        search("x")
    assert "rl.url" not in spans(lab.read(made.id))["rollout"].attributes
    monkeypatch.setenv("ROLLTRACE_VIEW_URL", "http://lab:7655/")
    found = spans(lab.read(made.id))
    assert found["rollout"].attributes["rl.url"] == f"http://lab:7655/t/{made.id}"
    assert "rl.url" not in found["search"].attributes


def test_children_come_before_their_parents(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        rollout_trace_op(name="outer")(lambda: search("x"))()
    assert [span.name for span in spans_of(lab.read(made.id), longest=9999)] == ["search", "outer", "rollout"]


def test_coordinates_are_on_every_span(lab: Any) -> None:
    with rollout_trace_attr(7, step=3, rollout_n=1, validate=True, name="rollout", team="red", size=5) as made:
        search("x")
    found = spans(lab.read(made.id))
    wanted = {"rl.project": "项目", "rl.experiment": "run-1", "rl.step": 3, "rl.sample_index": "7", "rl.rollout_n": 1}
    for span in found.values():
        assert wanted.items() <= span.attributes.items()
        assert span.attributes["rl.validate"] is True
    assert (found["rollout"].attributes["rl.tag.team"], found["rollout"].attributes["rl.tag.size"]) == ("red", 5)


def test_a_chat_call_speaks_the_genai_conventions(lab: Any) -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "看"}, {"type": "image_url", "image_url": "u"}]},
        {"role": "tool", "tool_call_id": "c0", "content": "found"},
    ]
    with rollout_trace_attr() as made:
        chat(messages, [1, 2, 3], "qwen", 0.5)
    span = spans(lab.read(made.id))["chat"]
    said = span.attributes
    assert span.kind == CLIENT
    assert (said["gen_ai.operation.name"], said["openinference.span.kind"]) == ("chat", "LLM")
    assert (said["gen_ai.request.model"], said["gen_ai.request.temperature"]) == ("qwen", 0.5)
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (3, 2)
    assert said["gen_ai.response.finish_reasons"] == ["stop"]
    first, second, third = json.loads(str(said["gen_ai.input.messages"]))
    assert first == {"role": "system", "parts": [{"type": "text", "content": "be kind"}]}
    assert second["parts"][0] == {"type": "text", "content": "看"}
    assert third["parts"] == [{"type": "tool_call_response", "id": "c0", "response": "found"}]
    (reply,) = json.loads(str(said["gen_ai.output.messages"]))
    assert reply == {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "回答"},
            {"type": "tool_call", "id": "c1", "name": "search", "arguments": "{}"},
        ],
        "finish_reason": "stop",
    }
    assert json.loads(str(said["input.value"]))["prompt_ids"] == [1, 2, 3], "everything else is there too"


def test_a_completion_without_messages_is_one(lab: Any) -> None:
    with rollout_trace_attr() as made:
        complete("a prompt")
    said = spans(lab.read(made.id))["complete"].attributes
    assert said["gen_ai.operation.name"] == "text_completion"
    assert "gen_ai.input.messages" not in said
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (5, 7)


def test_a_tool_call_is_named(lab: Any) -> None:
    with rollout_trace_attr() as made:
        search("x")
    said = spans(lab.read(made.id))["search"].attributes
    assert (said["gen_ai.operation.name"], said["gen_ai.tool.name"]) == ("execute_tool", "search")
    assert (said["output.value"], said["output.mime_type"]) == ("x", "text/plain")


def test_an_error_is_a_status_an_attribute_and_an_event(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        try:
            search("fail")
        except ValueError:
            pass
    found = spans(lab.read(made.id))
    failed = found["search"]
    assert (failed.status, failed.message) == (ERROR, "ValueError: no: such page")
    assert failed.attributes["error.type"] == "ValueError"
    (event,) = failed.events
    assert (event.name, event.time_ns) == ("exception", failed.end_ns)
    assert event.attributes["exception.type"] == "ValueError"
    assert event.attributes["exception.message"] == "no: such page"
    assert "raise ValueError" in str(event.attributes["exception.stacktrace"])
    assert found["rollout"].status == OK


def test_rewards_are_numbers_and_terms_have_names_of_their_own(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        made.reward(0.25)
        made.reward(0.5, terms={"format": 1, "broken": math.nan})
    said = spans(lab.read(made.id))["rollout"].attributes
    assert (said["rl.reward"], said["rl.reward_terms.format"]) == (0.5, 1.0)
    assert said["rl.reward_terms.broken_text"] == "nan"
    assert "rl.reward_terms.broken" not in said


def test_a_late_score_is_a_span_of_its_own_with_an_id_that_stays(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        made.reward(0.25)
    made.reward(1.0, terms={"late": 1.0})
    trajectory = lab.read(made.id)
    first, second = (list(root_and_scores(trajectory, longest=9999)) for _ in range(2))
    assert first == second
    score, root = first
    assert (score.name, score.parent_id, root.attributes["rl.reward"]) == ("score reward", root.span_id, 1.0)
    assert (score.attributes["gen_ai.evaluation.name"], score.attributes["gen_ai.evaluation.score.value"]) == (
        "reward",
        1.0,
    )
    assert score.attributes["rl.reward_terms.late"] == 1.0


def test_long_attributes_are_cut_with_a_mark(lab: Any) -> None:
    with rollout_trace_attr() as made:
        search("大" * 1000)
    said = spans(lab.read(made.id), longest=100)["search"].attributes
    assert str(said["output.value"]).startswith("大" * 33)
    assert str(said["output.value"]).endswith("[cut by rolltrace, 3000 bytes in all]")
    assert said["rl.cut"] == ["input.value", "output.value"]


def test_the_root_shows_the_question_and_the_answer(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        chat([{"role": "system", "content": "be kind"}, {"role": "user", "content": "why?"}], [1], "m", 1.0)
    said = spans(lab.read(made.id))["rollout"].attributes
    assert (said["input.value"], said["output.value"]) == ("why?", "回答")


def test_environment_steps_and_notes_are_events_of_the_root(lab: Any) -> None:
    with rollout_trace_attr(name="rollout") as made:
        made.transition({"prompt": "p"}, reward=0.5, episode_done=True)
        made.note("watch this", turn=1)
    events = {event.name: event.attributes for event in spans(lab.read(made.id))["rollout"].events}
    assert json.loads(str(events["rl.transition"]["rl.trace"])) == {"prompt": "p"}
    assert events["rl.transition"]["rl.episode_done"] is True
    assert "watch this" in str(events["rl.note"]["rl.body"])


def test_a_trajectory_inside_another_is_linked_to_it(lab: Any) -> None:
    with rollout_trace_attr(name="outer") as outer, rollout_trace_attr(name="inner") as inner:
        pass
    (link,) = spans(lab.read(inner.id))["inner"].links
    assert link.trace_id.hex() == outer.id


def test_numbers_that_json_does_not_have_come_as_text(lab: Any) -> None:
    with rollout_trace_attr() as made:
        search([math.nan, math.inf, 1.5, {"x": -math.inf}])
    said = spans(lab.read(made.id))["search"].attributes
    assert json.loads(str(said["output.value"])) == [
        {"$float": "nan"},
        {"$float": "inf"},
        1.5,
        {"x": {"$float": "-inf"}},
    ]


def test_for_mlflow_coordinates_are_tags_too(lab: Any) -> None:
    with rollout_trace_attr("s", step=3, validate=True, name="rollout") as made:
        search("x")
    found = spans(lab.read(made.id), mlflow=True)
    said = found["rollout"].attributes
    assert (said["mlflow.traceTag.step"], said["mlflow.traceTag.validate"]) == ("3", "true")
    assert said["mlflow.traceTag.experiment_name"] == "run-1"
    assert not any(name.startswith("mlflow") for name in found["search"].attributes)


def test_the_last_word_on_a_step_is_sent_with_what_it_replaced(lab: Any) -> None:
    with rollout_trace_attr(step=1) as made:
        made.transition({"prompt": "p"}, reward=0.5, episode_done=False)
        made.amend_transition(reward=1.0, episode_done=True, stop_reason="max_turns")
    (root,) = spans_of(lab.read(made.id), longest=65536)
    (said,) = (event.attributes for event in root.events if event.name == "rl.transition")
    assert (json.loads(str(said["rl.reward"])), said["rl.episode_done"], said["rl.stop_reason"]) == (
        1.0,
        True,
        "max_turns",
    )
    (before,) = json.loads(str(said["rl.earlier"]))
    assert (before["reward"], before["episode_done"], before["stop_reason"]) == (0.5, False, None)


def test_a_call_of_another_model_is_a_model_call_and_not_what_the_policy_said(lab: Any) -> None:
    @rollout_trace_op(kind="aux_llm")
    def grade(messages: list[dict[str, str]]) -> dict[str, Any]:
        return {"text": "B is better", "usage": {"prompt_tokens": 5, "completion_tokens": 3}}

    with rollout_trace_attr(step=1) as made:
        complete("What?")
        grade([{"role": "user", "content": "A or B?"}])
    found = spans(lab.read(made.id))
    (name,) = (each for each in found if "grade" in each)
    assert found[name].kind == CLIENT
    assert found[name].attributes["openinference.span.kind"] == "LLM"
    assert found[name].attributes["gen_ai.usage.output_tokens"] == 3
    assert found["rollout_trace"].attributes["output.value"] == "a reply"
    assert found["rollout_trace"].attributes["rl.turns"] == 1
