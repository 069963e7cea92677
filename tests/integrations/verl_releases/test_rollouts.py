"""The rollouts of this release, through its own manager: what was traced is what the agent loops returned."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from verl.trainer.ppo import ray_trainer
from verl.trainer.ppo.core_algos import AdvantageEstimator

import rolltrace
from rolltrace.cli import main
from rolltrace.integrations.verl.framework import RELEASES
from tests.integrations.verl.compared import returned, traced, tree

from .rig import MODEL_CALL, Rig, batch_of

CHANGED = {
    "verl.utils.rollout_trace",
    "verl.experimental.agent_loop.agent_loop",
    "verl.trainer.ppo.ray_trainer",
    "ray.actor",
}
"""The modules that are changed in every release."""


@pytest.fixture(scope="module")
def manager(rig: Rig) -> Any:
    """Two workers for all tests here, because they take long to start; each test has a step of its own."""
    return rig.manager(rig.config("managed"))


def test_this_release_is_one_that_was_tested_and_nothing_in_it_is_amiss() -> None:
    assert RELEASES.version() in RELEASES.tested
    assert set(RELEASES.changed) >= CHANGED
    assert RELEASES.complaints() == []


def test_a_single_turn(manager: Any, recorded: Any) -> None:
    output = manager.generate_sequences(batch_of(["hi", "ho"], agent="single_turn_agent", step=1))
    found = recorded("managed", 1)
    assert returned(output) == [traced(each) for each in found]
    assert [tree(op) for op in found[0].ops] == [
        {"SingleTurnAgentLoop.run": [MODEL_CALL]},
        {"compute_score": ["judge"]},
    ]


def test_a_tool_agent(manager: Any, recorded: Any) -> None:
    output = manager.generate_sequences(batch_of(["look", "hi"], step=2))
    found = recorded("managed", 2)
    assert returned(output) == [traced(each) for each in found]
    with_tool = found[0]
    assert [tree(op) for op in with_tool.ops] == [
        {
            "ToolAgentLoop.run": [
                MODEL_CALL,
                "HermesToolParser.extract_tool_calls",
                "look_up",
                MODEL_CALL,
                "HermesToolParser.extract_tool_calls",
            ]
        },
        {"compute_score": ["judge"]},
    ]
    (tool,) = (op for op in with_tool.walk() if op.kind == "tool")
    assert (tool.inputs["parameters"], tool.outputs[1:]) == ({"word": "cat"}, [0.25, {"hits": 1}])
    assert with_tool.scores[0]["terms"] == {"acc": 1.0, "length": pytest.approx(100 * with_tool.reward)}
    assert with_tool.tags == {"agent": "tool_agent", "data_source": "arithmetic", "uid": "uid-0"}
    for op in (op for op in with_tool.walk() if op.kind == "llm"):
        assert (op.policy_version, op.finish_reason) == (2, "completed")
        assert "user\nlook" in (op.prompt_text or "")
        assert "my answer" in (op.response_text or "") or "let me see" in (op.response_text or "")


def test_a_group_that_is_split_over_two_workers_has_each_number_once(manager: Any, recorded: Any) -> None:
    output = manager.generate_sequences(batch_of(["hi", "look", "ho"], n=2, step=3))
    found = recorded("managed", 3)
    assert [(each.sample_index, each.rollout_n) for each in found] == [(s, n) for s in range(3) for n in range(2)]
    assert len({each.worker for each in found}) == 2
    assert returned(output) == [traced(each) for each in found]
    assert "rolltrace_row" not in output.non_tensor_batch


class Updating(ray_trainer.RayPPOTrainer):
    """Does nothing but update the actor."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.global_steps = 4

    def _update_actor(self, batch: Any) -> Any:
        return batch


def test_the_trainer_adds_advantage_and_fate(rig: Rig, manager: Any, recorded: Any) -> None:
    with contextlib.suppress(Exception):  # it gets nothing to train with; tracing begins before it sees that
        ray_trainer.RayPPOTrainer(
            config=rig.config("managed"), tokenizer=None, role_worker_mapping={}, resource_pool_manager=None
        )
    assert rolltrace.RolloutTraceConfig.get_instance().experiment_name == "managed"
    batch = batch_of(["hi", "look"], n=2, step=4)
    output = manager.generate_sequences(batch)
    scores = torch.zeros_like(output.batch["response_mask"], dtype=torch.float32)
    scores[:, 0] = torch.tensor([1.0, 0.0, 0.5, 0.5])
    output.batch["token_level_scores"] = output.batch["token_level_rewards"] = scores
    output.batch["response_mask"][3] = 0  # as rollout correction rejects a sequence
    output.non_tensor_batch["uid"] = batch.non_tensor_batch["uid"]
    ray_trainer.compute_advantage(output, adv_estimator=AdvantageEstimator.GRPO)
    Updating(rig.config("managed"))._update_actor(output)
    found = recorded("managed", 4)
    assert [each.advantage for each in found[:3]] == pytest.approx([0.7071, -0.7071, 0.0], abs=1e-3)
    assert [(each.fate, each.trained_step) for each in found] == [("trained", 4)] * 3 + [("filtered", None)]


def test_a_greedy_baseline_can_be_joined_with_the_rollouts_of_its_prompts(manager: Any, recorded: Any) -> None:
    """As the trainer of verl 0.7.1 does for REMAX."""
    prompts = batch_of(["hi", "ho"], agent="single_turn_agent", step=5)
    sampled = manager.generate_sequences(prompts)
    sampled.meta_info.pop("timing")
    (first, second) = recorded("managed", 5)
    baseline = manager.generate_sequences(batch_of(["hi", "ho"], agent="single_turn_agent", step=5, do_sample=False))
    assert len(recorded("managed", 5)) == 4
    prompts.batch = TensorDict({"of_the_dataset": torch.zeros(2, 1)}, batch_size=2)
    joined = prompts.union(baseline)
    joined.pop(batch_keys=list(baseline.batch.keys()))
    carried = joined.union(sampled).non_tensor_batch["rolltrace"]
    assert [each["id"] for each in carried] == [first.trajectory_id, second.trajectory_id]


def test_the_doctor_finds_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--verl"]) == 0
    said = capsys.readouterr().out
    assert f"verl {RELEASES.version()}, with which this rolltrace was tested" in said
    assert said.endswith("all is well\n")
