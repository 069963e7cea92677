"""What a training run is told, and what it reads: config, data set, reward function, an agent loop of its own."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset
from omegaconf import DictConfig

from .rig import Rig

TWICE = '''
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

class Twice(ToolAgentLoop):
    """A rollout of two conversations."""

    async def run(self, sampling_params, **kwargs):
        return [await super(Twice, self).run(sampling_params, **kwargs) for _ in range(2)]
'''

REWARD = '''
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

def compute_score(solution_str, **more):
    """The better the larger the number that it ends with."""
    number = int(solution_str.rpartition(" ")[2])
    return {"score": number / 4, "acc": 1.0, "number": number, "length": len(solution_str) / 1000}

class Manager(RewardManagerBase):
    """Needs only the tokens: that is all which the v1 trainer gives to a reward model beside the actor."""

    def __init__(self, config, tokenizer, compute_score, **more):
        super().__init__(config, tokenizer, compute_score)

    async def run_single(self, data):
        item = data[-1:][0]
        responses = item.batch["responses"]
        length = item.batch["attention_mask"][-responses.shape[-1]:].sum()
        found = self.compute_score(solution_str=self.tokenizer.decode(responses[:length], skip_special_tokens=True))
        return {"reward_score": found["score"], "reward_extra_info": found}
'''


GAE = (
    "algorithm.adv_estimator=gae",
    "algorithm.lam=0.9",
    "critic.ppo_mini_batch_size=2",
    "critic.ppo_micro_batch_size_per_gpu=1",
)
LATE = (
    "reward.reward_model.enable=True",
    "reward.reward_model.rollout.name=vllm",
    "reward.reward_manager.source=importlib",
    "reward.reward_manager.name=Manager",
)
"""A reward model that shares the GPUs of the actor: the trainer asks it, when the rollouts are over."""


def training(rig: Rig, experiment: str, folder: Path, questions: list[str], *more: str) -> DictConfig:
    """The config of two steps over these questions, two in each, with a validation before and after."""
    (rig.folder / "twice.py").write_text(TWICE)  # a place where the workers look for modules
    (folder / "agents.yaml").write_text("- {name: twice, _target_: twice.Twice}")
    return rig.config(experiment, *training_keys(rig.model, folder, questions), *more)


def training_keys(model: str, folder: Path, questions: list[str]) -> list[str]:
    """The same, as one types it, for agent loops in `agents.yaml`."""
    (folder / "reward.py").write_text(REWARD)
    data_set(folder / "train.parquet", questions)
    data_set(folder / "val.parquet", ["add for validation", "look for validation", "hi for validation"])
    return [
        f"data.train_files={folder / 'train.parquet'}",
        f"data.val_files={folder / 'val.parquet'}",
        "data.train_batch_size=2",
        "data.dataloader_num_workers=0",
        "data.shuffle=False",
        "data.filter_overlong_prompts=False",
        "data.validation_shuffle=False",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.n=4",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder / 'agents.yaml'}",
        f"critic.model.path={model}",
        "algorithm.adv_estimator=grpo",
        f"reward.custom_reward_function.path={folder / 'reward.py'}",
        f"reward.reward_manager.module.path={folder / 'reward.py'}",
        f"reward.reward_model.model_path={model}",
        "reward.num_workers=1",
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=2",
        "trainer.logger=[file]",
        "trainer.total_training_steps=2",
        "trainer.test_freq=2",
        "trainer.save_freq=-1",
        f"trainer.validation_data_dir={folder / 'val'}",
        "trainer.resume_mode=disable",
    ]


def data_set(path: Path, questions: list[str]) -> None:
    Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": question}],
                "data_source": "arithmetic",
                "agent_name": "twice" if "twice" in question else "tool_agent",
                "reward_model": {"style": "rule", "ground_truth": "3"},
                "extra_info": {"index": index},
            }
            for index, question in enumerate(questions)
        ]
    ).to_parquet(path)
