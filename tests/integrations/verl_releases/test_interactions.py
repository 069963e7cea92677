"""User turns, which verl has up to 0.7.1: a real ToolAgentLoop, with a user who asks back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.verl.compared import returned, traced, tree

from .rig import MODEL_CALL, Rig, batch_of

pytest.importorskip("verl.interactions", reason="this release of verl has no interactions")


def test_a_user_turn_is_an_env_op(rig: Rig, recorded: Any) -> None:
    interactions = f"actor_rollout_ref.rollout.multi_turn.interaction_config_path={rig.folder / 'interactions.yaml'}"
    output = rig.in_process(rig.config("user turns", interactions), batch_of(["look"]))
    (each,) = recorded("user turns")
    assert returned(output) == [traced(each)]
    assert tree(each.ops[0]) == {
        "ToolAgentLoop.run": [
            MODEL_CALL,
            "HermesToolParser.extract_tool_calls",
            "look_up",
            MODEL_CALL,
            "HermesToolParser.extract_tool_calls",
            "Doubter.generate_response",
            MODEL_CALL,
            "HermesToolParser.extract_tool_calls",
            "Doubter.generate_response",
        ]
    }
    first, last = (op for op in each.walk() if op.kind == "env")
    assert [message["role"] for message in first.inputs["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert first.inputs["kwargs"] == {"name": "doubter"}
    assert first.outputs == [False, "are you sure", 0.5, {"asked": 1}]
    assert last.inputs["messages"][-2:] == [
        {"role": "user", "content": "are you sure"},
        {"role": "assistant", "content": "my answer to are you sure is 4"},
    ]
    assert last.outputs == [True, "thanks", 0.5, {"asked": 2}]
