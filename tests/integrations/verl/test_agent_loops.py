"""Agent loops of verl, in every place where they run: what was traced is what they returned."""

from __future__ import annotations

from typing import Any

from verl import DataProto

from rolltrace.query import Trajectory

from .compared import returned, traced, tree
from .parts import batch_of
from .rig import Rig


def assert_complete(output: DataProto, trajectories: list[Trajectory]) -> None:
    assert [traced(each) for each in trajectories] == returned(output)
    for each in trajectories:
        assert each.status == "ok"
        assert each.scores[0]["terms"]["acc"] == 1.0
        assert each.tags["agent"] in ("tool_agent", "single_turn_agent")
        model = [op for op in each.walk() if op.kind == "llm"]
        assert each.turns == len(model) > 0
        for op in model:
            assert op.name == "LLMServerClient.generate"
            assert (op.policy_version, op.finish_reason) == (2, "completed")
            assert "<|im_start|>user" in (op.prompt_text or "")
            assert "answer" in (op.response_text or "") or "let me see" in (op.response_text or "")
            tokens = next(tokens for tokens in each.tokens if tokens.op_id == op.op_id)
            assert len(tokens.response_ids or ()) == len(tokens.logprobs or ()) > 0


def test_a_single_turn_in_this_process(rig: Rig, experiment: str, recorded: Any) -> None:
    output = rig.in_process(rig.config(experiment), batch_of(["a", "b"], agent="single_turn_agent"))
    assert_complete(output, recorded())
    assert [(each.step, each.sample_index, each.rollout_n) for each in recorded()] == [(3, 0, 0), (3, 1, 0)]
    assert [tree(op) for op in recorded()[0].ops] == [
        {"SingleTurnAgentLoop.run": ["LLMServerClient.generate"]},
        {"compute_score": ["judge"]},
    ]


def test_a_tool_agent_in_this_process(rig: Rig, experiment: str, recorded: Any) -> None:
    output = rig.in_process(rig.config(experiment), batch_of(["add them"]))
    (each,) = recorded()
    assert_complete(output, [each])
    assert (each.turns, each.tool_calls, each.tool_errors) == (2, 1, 0)
    (run, _) = each.ops
    assert tree(run) == {
        "ToolAgentLoop.run": [
            "LLMServerClient.generate",
            "HermesToolParser.extract_tool_calls",
            "add",
            "LLMServerClient.generate",
            "HermesToolParser.extract_tool_calls",
        ]
    }
    tool = run.children[2]
    assert (tool.kind, tool.inputs, tool.outputs) == ("tool", {"parameters": {"a": 2, "b": 2}}, "4")


def test_an_overridden_execute_is_traced_without_the_whole_conversation(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    rig.in_process(rig.config(experiment), batch_of(["look up"]))
    (each,) = recorded()
    (tool,) = (op for op in each.walk() if op.kind == "tool")
    assert tool.name == "look_up"
    assert tool.inputs["parameters"] == {"word": "cat"}
    assert "agent_data" not in str(tool.inputs)
    assert tool.outputs[0]["text"] == "found cat"


def test_a_tool_that_raises_is_an_error_although_the_agent_goes_on(rig: Rig, experiment: str, recorded: Any) -> None:
    output = rig.in_process(rig.config(experiment), batch_of(["divide"]))
    (each,) = recorded()
    assert_complete(output, [each])
    assert (each.tool_calls, each.tool_errors) == (1, 1)
    (tool,) = (op for op in each.walk() if op.kind == "tool")
    assert tool.status == "error"
    assert "ZeroDivisionError" in (tool.error or "")
