"""What stands in for tinker's service in a whole training run, and a dataset with one of each kind of group."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import chz
import tinker
import torch
from tinker_cookbook.distillation import sdft, train_on_policy
from tinker_cookbook.distillation.datasets import DistillationDatasetConfig, PromptOnlyDataset, TeacherConfig
from tinker_cookbook.preference.types import PreferenceModel
from tinker_cookbook.recipes.multiplayer_rl.guess_number.env import GuessNumberEnvGroupBuilder
from tinker_cookbook.recipes.sdft.datasets import SDFTDataset
from tinker_cookbook.rl import train
from tinker_cookbook.rl.preference_envs import PairwisePreferenceGroupBuilder, TournamentPattern
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder

from .kinds import AddEnv, Appending, message_env
from .stand_ins import END, MODEL, RENDERER, TOKENIZER, ids


class Done:
    """A future of tinker's that is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    async def result_async(self, *_: Any, **__: Any) -> Any:
        return self._value


class Sampling:
    """A sampling client: what it says depends on the prompt, and on chance."""

    def __init__(self, version: int) -> None:
        self.version = version

    async def sample_async(self, prompt: Any, num_samples: int, sampling_params: Any, **_: Any) -> Any:
        await asyncio.sleep(random.random() / 500)
        asked = TOKENIZER.decode(prompt.to_ints())
        if "guess a integer" in asked:
            said = f"Guess: {random.choice([7, 3, 9])}"
        elif "1+1?" in asked:
            said = "2"
        elif "?" in asked:
            said = random.choice(["4", "5", "4 " * 3])
        else:
            said = "x" * random.randint(1, 20)
        tokens = ids(said + END)[: sampling_params.max_tokens]
        sequence = SimpleNamespace(
            tokens=tokens, logprobs=[-0.5 - at / 1000 for at in range(len(tokens))], stop_reason="stop"
        )
        return SimpleNamespace(sequences=[sequence], topk_prompt_logprobs=None)

    async def compute_logprobs_async(self, prompt: Any) -> list[float]:
        return [-1.0 - at / 100 for at in range(prompt.length)]


class Training:
    """A training client that trains nothing."""

    advantages: ClassVar[list[float]] = []
    """Of all data so far: the mean over the tokens that were sampled."""

    def __init__(self) -> None:
        self.version = 0

    async def forward_backward_async(self, data: Any, **_: Any) -> Done:
        lengths = [datum.model_input.length for datum in data]
        for datum in data:
            if "advantages" not in datum.loss_fn_inputs:
                continue
            sampled = datum.loss_fn_inputs["logprobs"].to_torch() != 0
            self.advantages.append(float(datum.loss_fn_inputs["advantages"].to_torch()[sampled].mean()))
        outputs = [{"logprobs": tinker.TensorData.from_torch(torch.full((length,), -0.5))} for length in lengths]
        return Done(SimpleNamespace(loss_fn_outputs=outputs, metrics={}))

    async def optim_step_async(self, _: Any) -> Done:
        self.version += 1
        return Done(SimpleNamespace(metrics={}))

    async def save_weights_and_get_sampling_client_async(self, *_: Any, **__: Any) -> Sampling:
        return Sampling(self.version)

    def create_sampling_client(self, _: str) -> Sampling:
        return Sampling(self.version)

    async def save_state_async(self, name: str, **_: Any) -> Done:
        return Done(SimpleNamespace(path=f"tinker://x/weights/{name}"))

    async def save_weights_for_sampler_async(self, name: str, **_: Any) -> Done:
        return Done(SimpleNamespace(path=f"tinker://x/sampler_weights/{name}"))


class Service:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    async def create_lora_training_client_async(self, *_: Any, **__: Any) -> Training:
        return Training()

    def create_sampling_client(self, *_: Any, **__: Any) -> Sampling:
        return Sampling(0)

    def create_rest_client(self) -> Any:
        return SimpleNamespace()


class Longer(PreferenceModel):
    """Prefers the longer answer, and knows ties."""

    async def __call__(self, comparison: Any) -> float:
        one, other = (len(each[0]["content"]) for each in (comparison.completion_A, comparison.completion_B))
        return float((other > one) - (other < one))


def preferences(number: int, **more: Any) -> PairwisePreferenceGroupBuilder:
    prompt: Any = [{"role": "user", "content": "hi"}]
    pattern = TournamentPattern.ALL_PAIRS_BOTH_WAYS
    return PairwisePreferenceGroupBuilder(prompt, RENDERER, pattern, Longer(), number, **more)


class MessageGroup(EnvGroupBuilder):
    """Environments that append to the list which they handed out; some fail when they are first tried."""

    def __init__(self, number: int, failures: int = 0) -> None:
        self._number = number
        self._failures = failures

    async def make_envs(self) -> Any:
        envs = []
        for _ in range(self._number):
            fails_at = 1 if self._failures else None
            self._failures -= bool(self._failures)
            envs.append(message_env(Appending(2, fails_at=fails_at)))
        return envs

    def logging_tags(self) -> list[str]:
        return ["message"]


class Mixed(RLDataset):
    """In every batch: one of each kind, a group with equal rewards, and one builder twice."""

    def __init__(self, batches: int, number: int, failures: int) -> None:
        self._batches, self._number, self._failures = batches, number, failures
        self._shared = ProblemGroupBuilder(partial(AddEnv, 2, 2), number, "shared")

    def get_batch(self, index: int) -> Any:
        return [
            ProblemGroupBuilder(partial(AddEnv, 2, 2), self._number, "add"),
            GuessNumberEnvGroupBuilder(7, RENDERER, self._number),
            MessageGroup(self._number, self._failures),
            preferences(self._number),
            self._shared,
            self._shared,
            ProblemGroupBuilder(partial(AddEnv, 1, 1), self._number, "constant"),
            ProblemGroupBuilder(partial(AddEnv, index, 4 - index), self._number, "other"),
        ]

    def __len__(self) -> int:
        return self._batches


GROUPS = 8
"""How many there are in a batch."""


class Held(RLDataset):
    """The test set: two batches of two."""

    def get_batch(self, index: int) -> Any:
        return [ProblemGroupBuilder(partial(AddEnv, 2, 2), 1, f"test-{index}-{at}") for at in range(2)]

    def __len__(self) -> int:
        return 2


@chz.chz
class MixedBuilder(RLDatasetBuilder):
    batches: int = 2
    number: int = 3
    failures: int = 0

    async def __call__(self) -> Any:
        return Mixed(self.batches, self.number, self.failures), Held()


@chz.chz
class PromptsBuilder(RLDatasetBuilder):
    """Prompts for distillation: four, in batches of two."""

    async def __call__(self) -> Any:
        prompts = [f"say {number}" for number in range(4)]
        return PromptOnlyDataset(prompts, 2, 2, RENDERER, TOKENIZER, dataset_name="prompts"), Held()


def distillation_config(log: str) -> train_on_policy.Config:
    teacher = TeacherConfig(base_model=MODEL)
    return train_on_policy.Config(
        learning_rate=1e-5,
        dataset_configs=[
            DistillationDatasetConfig(dataset_builder=PromptsBuilder(), teacher_config=teacher, groups_per_batch=2)
        ],
        model_name=MODEL,
        recipe_name="recipe_distillation",
        renderer_name="qwen3_instruct",
        max_tokens=64,
        log_path=log,
        eval_every=1,
        save_every=0,
    )


def self_distillation(log: str, topk: int) -> tuple[sdft.Config, SDFTDataset]:
    """Four questions, in batches of two."""
    questions = [f"say {number}" for number in range(4)]
    made = sdft.Config(
        model_name=MODEL,
        recipe_name="recipe_sdft",
        renderer_name="qwen3_instruct",
        loss_fn="importance_sampling" if topk == 0 else "cross_entropy",
        topk=topk,
        max_tokens=64,
        log_path=log,
        eval_every=1,
        save_every=0,
    )
    return made, SDFTDataset(questions, [f"{each}!" for each in questions], 2, 2, RENDERER)


def config(log: str, mode: str = "sync", *, failures: int = 0, batches: int = 2, **more: Any) -> train.Config:
    """A config of a whole run, in one of tinker-cookbook's modes."""
    if mode == "stream":
        more["stream_minibatch_config"] = train.StreamMinibatchConfig(groups_per_batch=GROUPS, num_minibatches=2)
    if mode.startswith("async"):
        off_policy = more.pop("max_steps_off_policy", 2)
        more["async_config"] = train.AsyncConfig(max_steps_off_policy=off_policy, groups_per_batch=GROUPS)
    return train.Config(
        learning_rate=1e-5,
        dataset_builder=MixedBuilder(batches=batches, failures=failures),
        model_name=MODEL,
        recipe_name="recipe_mixed",
        max_tokens=64,
        log_path=log,
        eval_every=1,
        save_every=0,
        renderer_name="qwen3_instruct",
        **more,
    )


tinker.ServiceClient = Service  # type: ignore[assignment, misc]
