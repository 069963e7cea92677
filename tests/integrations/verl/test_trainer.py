"""What the trainer says later reaches the trajectory that the worker traced: advantage, fate, a late reward."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo import ray_trainer
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1 import replay_buffer
from verl.trainer.ppo.v1 import utils as v1_utils
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

import rolltrace
from rolltrace.integrations.verl import trainer

from .parts import batch_of
from .rig import Rig
from .updates import STEP, Updating, UpdatingV1


def with_advantages(
    output: DataProto,
    batch: DataProto,
    rewards: list[float],
    estimator: AdvantageEstimator = AdvantageEstimator.GRPO,
    **more: Any,
) -> DataProto:
    """As the trainer does: the rollouts joined to their batch, scored, and compared within their group."""
    scores = torch.zeros_like(output.batch["response_mask"], dtype=torch.float32)
    scores[:, 0] = torch.tensor(rewards)
    output.batch["token_level_scores"] = output.batch["token_level_rewards"] = scores
    output.non_tensor_batch["uid"] = batch.non_tensor_batch["uid"]
    return ray_trainer.compute_advantage(output, adv_estimator=estimator, **more)


def test_advantage_and_fate_reach_their_trajectories(rig: Rig, experiment: str, recorded: Any) -> None:
    batch = batch_of(["a", "b"], n=2)
    output = rig.in_process(rig.config(experiment), batch)
    output.batch["response_mask"][3] = 0  # as rollout correction rejects a sequence
    with_advantages(output, batch, [1.0, 0.0, 0.5, 0.5])
    Updating(rig.config(experiment))._update_actor(output)
    found = recorded()
    assert [each.advantage for each in found[:3]] == pytest.approx([0.7071, -0.7071, 0.0], abs=1e-3)
    assert [each.fate for each in found] == ["trained", "trained", "trained", "filtered"]
    assert [each.trained_step for each in found] == [STEP, STEP, STEP, None]
    assert "rollout correction" in (found[3].fate_reason or "")
    assert all(len([s for s in each.scores if s["name"] == "reward"]) == 1 for each in found)


def test_a_reward_that_only_the_trainer_computes(rig: Rig, experiment: str, recorded: Any) -> None:
    batch = batch_of(["a", "b"])
    output = rig.in_process(rig.config(experiment), batch, judged=False)
    assert [each.reward for each in recorded()] == [None, None]
    output.non_tensor_batch["format"] = np.array([0.5, 1.0])
    output.meta_info["reward_extra_keys"] = ["format"]
    with_advantages(output, batch, [0.25, 0.75])
    assert [each.reward for each in recorded()] == [0.25, 0.75]
    assert [each.scores[0]["terms"] for each in recorded()] == [{"format": 0.5}, {"format": 1.0}]


def test_a_row_that_is_drawn_twice_counts_once_and_one_that_is_not_drawn_is_filtered(
    rig: Rig, experiment: str, recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(["a", "b"])
    output = rig.in_process(rig.config(experiment), batch, judged=False)
    monkeypatch.setattr(torch, "multinomial", lambda *_, **__: torch.tensor([1, 1]))
    output.batch["values"] = torch.zeros_like(output.batch["response_mask"], dtype=torch.float32)
    reweight = OmegaConf.create({"use_pf_ppo": True, "pf_ppo": {"reweight_method": "pow", "weight_pow": 2.0}})
    with_advantages(output, batch, [0.25, 0.75], AdvantageEstimator.GAE, config=reweight)
    Updating(rig.config(experiment))._update_actor(output)
    first, second = recorded()
    assert (first.reward, first.fate, first.fate_reason) == (0.25, "filtered", "left out when the batch was reweighted")
    assert [score["name"] for score in second.scores] == ["reward", "advantage", "fate"]
    assert (second.reward, second.fate) == (0.75, "trained")


def test_a_worker_that_computes_rewards_in_its_own_way_is_known_to_the_trainer(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    class Own(AgentLoopWorker):
        async def _compute_score(self, outputs: Any, *args: Any, **kwargs: Any) -> None:
            for output in outputs if isinstance(outputs, list) else [outputs]:
                output.reward_score = 0.5

    async def roll_out() -> DataProto:
        config = rig.config(experiment)
        return await Own(config, rig.client(config), None, [rig.judge]).generate_sequences(batch)

    batch = batch_of(["a", "b"])
    with_advantages(asyncio.run(roll_out()), batch, [0.25, 0.75])
    assert [each.reward for each in recorded()] == [0.25, 0.75]


def test_rollouts_that_no_worker_of_verls_has_made_are_counted(rig: Rig, experiment: str) -> None:
    batch = batch_of(["a", "b"])
    output = rig.in_process(rig.config(experiment), batch)
    trainer.start(rig.config(experiment))
    with_advantages(output, batch, [0.25, 0.75])
    assert rolltrace.stats().losses == {}
    del output.non_tensor_batch["rolltrace"]  # as those of a manager of one's own
    with_advantages(output, batch, [0.25, 0.75])
    assert sum(rolltrace.stats().losses["untraced_rollout"].values()) == 2


def test_the_trainer_turns_tracing_on_by_its_config(rig: Rig, experiment: str) -> None:
    trainer.start(rig.config(experiment, backend="null"))
    assert rolltrace.RolloutTraceConfig.get_instance().backend is None
    trainer.start(rig.config(experiment))
    config = rolltrace.RolloutTraceConfig.get_instance()
    assert (config.project_name, config.experiment_name) == ("maths", experiment)


def test_so_does_one_that_never_calls_the_init_of_its_base(rig: Rig, experiment: str) -> None:
    class Apart(ray_trainer.RayPPOTrainer):
        """As FullyAsyncTrainer and OneStepOffRayTrainer of verl."""

        def __init__(self, config: Any) -> None:
            self.config = config

    Apart(rig.config(experiment))
    assert rolltrace.RolloutTraceConfig.get_instance().experiment_name == experiment


def test_a_rollout_is_not_trained_if_the_update_of_the_actor_fails(rig: Rig, experiment: str, recorded: Any) -> None:
    batch, config = batch_of(["a", "b"]), rig.config(experiment)
    with_advantages(output := rig.in_process(config, batch), batch, [1.0, 0.0])
    with pytest.raises(RuntimeError, match="out of memory"):
        Updating(config, fails=True)._update_actor(output)
    assert [each.fate for each in recorded()] == [None, None]
    Updating(config)._update_actor(output)  # of another batch, whose rollouts nobody traced
    assert [each.fate for each in recorded()] == [None, None]
    with_advantages(output, batch, [1.0, 0.0])
    Updating(config)._update_critic(output)
    assert [each.fate for each in recorded()] == [None, None]
    Updating(config)._update_actor(output)
    assert [each.fate for each in recorded()] == ["trained", "trained"]


def test_the_step_of_a_fully_asynchronous_trainer_is_that_of_its_weights(
    rig: Rig, experiment: str, recorded: Any
) -> None:
    batch, config = batch_of(["a"]), rig.config(experiment)
    with_advantages(output := rig.in_process(config, batch), batch, [1.0])
    updating = Updating(config)
    updating.current_param_version = 2  # in its third update of these weights
    updating._update_actor(output)
    (found,) = recorded()
    assert (found.trained_step, found.policy_version_min, found.staleness) == (3, 2, 1)


def traced_sessions(rig: Rig, experiment: str, queue: Any, sessions: list[tuple[str, int]]) -> list[str]:
    """Trajectories as the worker of the v1 trainer begins them: a uid, and how many rows each session has."""
    trainer.start(rig.config(experiment))
    uids = list(dict.fromkeys(uid for uid, _ in sessions))
    keys, fields = [], []
    for index, (uid, rows) in enumerate(sessions):
        session = sum(uid == other for other, _ in sessions[:index])
        with rolltrace.rollout_trace_attr(uids.index(uid), 2, session) as handle:
            keys += [f"{uid}_{session}_{row}" for row in range(rows)]
            fields += [{"extra_fields": {"rolltrace": {"id": handle.id, "rewarded": False}}} for _ in range(rows)]
    tags = [{"status": "success"} for _ in keys]
    queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return keys


def test_the_v1_trainer_finds_trajectories_in_its_queue(rig: Rig, experiment: str, recorded: Any, queue: Any) -> None:
    keys = traced_sessions(rig, experiment, queue, [("one_x", 2), ("one_x", 1), ("two", 1), ("two", 1)])
    assert keys == ["one_x_0_0", "one_x_0_1", "one_x_1_0", "two_0_0", "two_1_0"]
    mask = torch.ones(5, 3)
    rewards = torch.zeros(5, 3)
    rewards[:, -1] = torch.tensor([9.0, 1.0, 0.0, 0.5, 0.5])
    columns = {"response_mask": mask, "token_level_rewards": rewards, "token_level_scores": rewards}
    data = DataProto(
        batch=TensorDict(columns, batch_size=5),
        non_tensor_batch={"uid": np.array(["one_x", "one_x", "one_x", "two", "two"], dtype=object)},
    )
    v1_utils.compute_advantage_for_multi_trajectories(data, keys, adv_estimator=AdvantageEstimator.GRPO)
    UpdatingV1(rig.config(experiment))._update_actor(keys, {})
    found = {(each.sample_index, each.rollout_n): each for each in recorded()}
    assert found[0, 0].advantage == pytest.approx(0.7071, abs=1e-3)
    assert found[0, 1].advantage == pytest.approx(-0.7071, abs=1e-3)
    assert {each.fate for each in found.values()} == {"trained"}


def test_the_advantage_of_a_session_is_the_mean_over_all_its_rows(
    rig: Rig, experiment: str, recorded: Any, queue: Any
) -> None:
    traced_sessions(rig, experiment, queue, [("one", 2), ("one", 1), ("one", 1)])
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    rewards = torch.tensor([[0.0, 1.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    columns = {"response_mask": mask, "token_level_rewards": rewards, "values": torch.zeros(4, 3)}
    data = DataProto(batch=TensorDict(columns, batch_size=4), non_tensor_batch={"uid": np.array(["one"] * 4)})
    keys = ["one_0_1", "one_0_0", "one_1_0", "one_2_0"]  # in any order, as a balanced batch
    given = {"adv_estimator": AdvantageEstimator.GAE, "config": {}}
    advantages = v1_utils.compute_advantage_for_multi_trajectories(data, keys, **given).batch["advantages"]
    UpdatingV1(rig.config(experiment))._update_actor(keys, {})
    of_rows = [advantages[row][mask[row].bool()].mean().item() for row in range(3)]
    first, second, third = recorded()
    assert first.advantage == pytest.approx((2 * of_rows[0] + of_rows[1]) / 3, abs=1e-6)
    assert second.advantage == pytest.approx(of_rows[2], abs=1e-6)
    assert (first.fate, second.fate) == ("trained", "trained")
    assert (third.fate, third.advantage) == ("filtered", None)


def test_groups_that_the_v1_replay_buffer_drops_are_filtered(
    rig: Rig, experiment: str, recorded: Any, queue: Any
) -> None:
    keys = traced_sessions(rig, experiment, queue, [(uid, 1) for uid in ("old", "same", "kept") for _ in range(2)])
    buffer = replay_buffer.ReplayBuffer("sync", {}, None, "drop", {})
    buffer.partitions["train"] = {key: {} for key in keys}
    buffer._evict_terminal_groups(5, "train", ({"old"}, {"same"}, set(), Counter()))
    assert list(buffer.partitions["train"]) == ["kept_0_0", "kept_1_0"]
    fates = {(each.sample_index, each.rollout_n): (each.fate, each.fate_reason) for each in recorded()}
    assert fates == {
        **{(0, n): ("filtered", "stale") for n in (0, 1)},
        **{(1, n): ("filtered", "all rewards alike") for n in (0, 1)},
        **{(2, n): (None, None) for n in (0, 1)},
    }
