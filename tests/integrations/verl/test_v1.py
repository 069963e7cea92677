"""The v1 trainer, verl's default: its workers put rollouts into a queue, and verl does not trace them at all."""

from __future__ import annotations

import time
from typing import Any

import pytest
import ray
import torch
from tensordict import NonTensorData, TensorDict
from verl import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1 import utils
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from rolltrace.integrations.verl import trainer

from .rig import Rig
from .updates import UpdatingV1

N = 2


def prompts(questions: list[str]) -> TensorDict:
    rows = [
        {
            "raw_prompt": [{"role": "user", "content": question}],
            "uid": f"prompt{index}",
            "index": index,
            "agent_name": "tool_agent",
            "tools_kwargs": {},
        }
        for index, question in enumerate(questions)
    ]
    batch = list_of_dict_to_tensordict(rows)
    batch["global_steps"] = NonTensorData(5)
    return batch


def fetched(queue: Any, keys: list[str]) -> Any:
    """The rows of these keys, once the workers have put all of them there: a key is seen before its fields."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return queue.kv_batch_get(keys=keys, partition_id="train", select_fields=["rm_scores", "response_mask"])
        except ValueError:
            assert time.monotonic() < deadline, queue.kv_list(partition_id="train")
            time.sleep(0.2)


def test_rollouts_and_what_the_trainer_makes_of_them(rig: Rig, experiment: str, recorded: Any, queue: Any) -> None:
    config = rig.config(experiment, f"actor_rollout_ref.rollout.n={N}")
    worker = AgentLoopWorkerTQ.options(num_cpus=0).remote(config, rig.client(config), None, [rig.judge])
    ray.get(worker.generate_sequences.remote(prompts(["add", "look"])))
    keys = [f"prompt{index}_{session}_0" for index in range(2) for session in range(N)]
    data = fetched(queue, keys)
    ray.kill(worker)

    found = recorded()
    assert [(each.step, each.sample_index, each.rollout_n) for each in found] == [
        (5, index, session) for index in range(2) for session in range(N)
    ]
    assert {(each.turns, each.tool_calls) for each in found} == {(2, 1)}
    rewards = [row.sum().item() for row in data["rm_scores"]]
    assert [each.reward for each in found] == pytest.approx(rewards)

    trainer.start(config)
    scores = torch.tensor([[1.0], [0.0], [0.5], [0.5]])
    columns = {"response_mask": torch.ones(4, 1), "token_level_rewards": scores, "token_level_scores": scores}
    batch = DataProto.from_dict(columns, {"uid": ["prompt0", "prompt0", "prompt1", "prompt1"]})
    utils.compute_advantage_for_multi_trajectories(batch, keys, adv_estimator=AdvantageEstimator.GRPO)
    assert [each.advantage for each in recorded()] == pytest.approx([0.7071, -0.7071, 0, 0], abs=1e-3)
    assert {each.fate for each in recorded()} == {None}  # until the actor is updated
    UpdatingV1(config)._update_actor(keys, {})
    assert {(each.fate, each.trained_step) for each in recorded()} == {("trained", 6)}
    assert [each.reward for each in recorded()] == pytest.approx(rewards)
