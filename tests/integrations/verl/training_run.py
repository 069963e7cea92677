"""Whole training runs of verl, and what the trainer itself had in its hands: to be compared with what was traced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pytest
import ray
import transfer_queue
from omegaconf import DictConfig, OmegaConf
from verl import DataProto
from verl.experimental.reward_loop import reward_loop
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.utils import Role, need_critic, need_reference_policy
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, PPOTrainerColocateAsync, PPOTrainerSync, trainer_base
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.rollout_trace import RolloutTraceConfig
from verl.workers.rollout.llm_server import LLMServerManager

from rolltrace.query import Trajectory

from .rig import Rig
from .stand_ins import Engine, Here, Pools, Replica, RewardModel
from .training_config import training


class Row(NamedTuple):
    """A row of the trainer's batch, without padding; or the same of a trajectory."""

    uid: str
    prompt: list[int]
    response: list[int]
    mask: list[int]
    reward: float
    terms: dict[str, float]
    advantage: float


class Observed(RayPPOTrainer):
    """Notes what it trains on."""

    def _update_critic(self, batch: DataProto) -> DataProto:
        self.__dict__.setdefault("criticised", {})[self.global_steps] = rows_of(batch)
        return super()._update_critic(batch)

    def _update_actor(self, batch: DataProto) -> DataProto:
        self.__dict__.setdefault("trained", {})[self.global_steps] = rows_of(batch)
        return super()._update_actor(batch)


class _OnCpu:
    """Of the v1 trainers, which choose the classes of their workers themselves."""

    def _init_resource_pool_mgr(self: Any) -> None:
        super()._init_resource_pool_mgr()
        self.role_worker_mapping = dict.fromkeys(self.role_worker_mapping, ray.remote(Engine))
        self.resource_pool_manager = Pools(self.resource_pool_manager.resource_pool_spec, self.mapping)
        self.replay_buffer.poll_interval = 0.1

    def _update_actor(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        self.__dict__.setdefault("trained", {})[self.global_steps] = rows_of_queue(batch)
        return super()._update_actor(batch, metrics)


class ObservedSync(_OnCpu, PPOTrainerSync): ...


class ObservedAsync(_OnCpu, PPOTrainerColocateAsync): ...


def rows_of(batch: DataProto) -> list[Row]:
    found = []
    names = batch.meta_info["reward_extra_keys"]
    width = batch.batch["prompts"].shape[1]
    for row in range(len(batch)):
        if not batch.batch["response_mask"][row].any():  # rejected
            continue
        attended = batch.batch["attention_mask"][row].bool()
        prompt, response = attended[:width], attended[width:]
        mask = batch.batch["response_mask"][row]
        found.append(
            Row(
                batch.non_tensor_batch["uid"][row],
                batch.batch["prompts"][row][prompt].tolist(),
                batch.batch["responses"][row][response].tolist(),
                mask[response].tolist(),
                round(batch.batch["token_level_scores"][row].sum().item(), 5),
                rounded({name: batch.non_tensor_batch[name][row] for name in names}),
                round(batch.batch["advantages"][row][mask.bool()].mean().item(), 5),
            )
        )
    return found


def rows_of_queue(batch: Any) -> list[Row]:
    """One of each rollout: if it has several rows in the queue, its last one, with the advantage of all its tokens."""
    keys = sorted(key for key in batch.keys if not key.startswith("pad"))
    data = transfer_queue.kv_batch_get(keys=keys, partition_id="train")
    tokens: dict[str, list[float]] = {}
    last = {}
    for row, key in enumerate(keys):
        session = key.rpartition("_")[0]
        last[session] = row
        mask = data["response_mask"][row].bool()
        tokens.setdefault(session, []).extend(data["advantages"][row][mask].tolist())
    return [
        Row(
            data["uid"][row],
            data["prompts"][row].tolist(),
            data["responses"][row].tolist(),
            data["response_mask"][row].tolist(),
            round(data["rm_scores"][row].sum().item(), 5),
            _terms_in_queue(data, row),
            round(mean(tokens[session]), 5),
        )
        for session, row in last.items()
    ]


def _terms_in_queue(data: Any, row: int) -> dict[str, float]:
    """With the rest if the worker has computed the reward, in columns of their own if the trainer has."""
    found = data["extra_fields"][row].get("reward_extra_info")
    return rounded(found or {name: data[name][row] for name in ("score", "acc", "number", "length")})


def rounded(terms: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(value), 5) for name, value in terms.items()}


def of_trajectory(each: Trajectory) -> Row:
    *_, run = (op for op in each.walk() if op.name.endswith(".run"))
    tokens = next(tokens for tokens in each.tokens if tokens.op_id == run.op_id)
    (reward,) = (score for score in each.scores if score["name"] == "reward")  # and no more than one
    return Row(
        each.tags["uid"],
        list(tokens.prompt_ids or ()),
        list(tokens.response_ids or ()),
        list(tokens.response_mask or ()),
        round(reward["value"], 5),
        rounded(reward["terms"]),
        round(-99.0 if each.advantage is None else each.advantage, 5),
    )


class Done:
    """A run that is over.

    Args:
        rig: What the run shares with other tests.
        store: Where it is traced to.
        folder: For its files; the experiment has the folder's name.
        questions: Two for each of the two steps, or more.
        more: Further keys of the config.
        engines: The worker groups of the engines; with `Here` one process less, too, sends requests to the server.
        manager: Who makes the rollouts of the v1 trainer.
    """

    def __init__(
        self,
        rig: Rig,
        store: Path,
        folder: Path,
        questions: list[str],
        *more: str,
        engines: Any = Here,
        manager: Any = AgentLoopManagerTQ,
    ) -> None:
        self.name, self.folder, self.store = folder.name, folder, store
        config = training(rig, self.name, folder, questions, *more)
        validate_config(config, need_reference_policy(config), need_critic(config))
        OmegaConf.resolve(config)
        with pytest.MonkeyPatch.context() as patch:  # the trainer lives longer than one test
            patch.setenv("ROLLTRACE_STORE", str(store))
            patch.setenv("ROLLTRACE_DRAIN", "off")
            patch.setenv("ROLLTRACE_STRICT", "1")
            patch.setenv("VERL_FILE_LOGGER_PATH", str(folder / "metrics.jsonl"))
            patch.setattr(reward_loop, "RewardModelManager", RewardModel)
            patch.setattr(trainer_base, "RayWorkerGroup", engines)
            if engines is Here:
                patch.setattr(LLMServerManager, "_init_global_load_balancer", known_balancer)
            RolloutTraceConfig.reset()
            self.trainer = fit_v1(config, manager) if config.trainer.use_v1 else fit(config, engines)
            RolloutTraceConfig.reset()
        self.trained: dict[int, list[Row]] = self.trainer.trained

    def metrics(self, step: int) -> dict[str, Any]:
        (found,) = (line["data"] for line in lines_of(self.folder / "metrics.jsonl") if line["step"] == step)
        return dict(found)

    def validated(self, step: int) -> list[dict[str, Any]]:
        return lines_of(self.folder / "val" / f"{step}.jsonl")


async def known_balancer(self: Any) -> None:
    self.global_load_balancer = Replica.balancer


def fit(config: DictConfig, engines: Any) -> Any:
    """As `verl.trainer.main_ppo_v0` does it."""
    actor = Role.ActorRolloutRef if need_reference_policy(config) else Role.ActorRollout
    roles = (actor, Role.Critic, Role.RewardModel)
    pools = Pools({"global_pool": [config.trainer.n_gpus_per_node]}, dict.fromkeys(roles, "global_pool"))
    workers = dict.fromkeys(roles[:2], ray.remote(Engine))
    tokenizer = omega_conf_to_dataclass(config.actor_rollout_ref.model).tokenizer
    trainer = Observed(config, tokenizer, workers, pools, engines)
    trainer.init_workers()
    try:
        trainer.fit()
    finally:
        _dismiss(trainer, trainer.async_rollout_manager)
    return trainer


def fit_v1(config: DictConfig, manager_class: Any) -> Any:
    """As `TaskRunnerV1` of `verl.trainer.main_ppo` does it, but the queue is there already, and is left empty."""
    config.transfer_queue.enable = True
    trainer = (ObservedSync if config.trainer.v1.trainer_mode == "sync" else ObservedAsync)(config)
    trainer.init()
    manager = manager_class.create(
        config=config,
        llm_client=trainer.get_llm_client(),
        teacher_client=trainer.get_teacher_client(),
        reward_loop_worker_handles=trainer.get_reward_handles(),
    )
    try:
        trainer.fit(manager)
    finally:
        _dismiss(trainer, manager)
        for partition, keys in transfer_queue.kv_list().items():
            if keys:
                transfer_queue.kv_clear(keys=list(keys), partition_id=partition)
    return trainer


def _dismiss(trainer: Any, manager: Any) -> None:
    """Ray keeps actors as long as somebody knows them, and reward workers have names of which there is one each."""
    workers = [*getattr(manager, "agent_loop_workers", ()), *trainer.reward_loop_manager.reward_loop_workers]
    for worker in [*workers, *trainer.actor_rollout_wg.workers]:
        ray.kill(worker)
    for pool in trainer.resource_pool_manager.resource_pool_dict.values():
        for group in pool.pgs or ():
            ray.util.remove_placement_group(group)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
