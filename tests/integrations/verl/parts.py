"""What stands around an agent loop in every release of verl: a tool, a model, a reward, a batch of questions.

Model and reward are stand-ins. Nothing here is imported from verl but what all releases have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from verl import DataProto

LOOK_UP = '''
import ray
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse

class LookUp(BaseTool):
    """As most tools: it has an `execute` of its own, which verl does not decorate."""

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text="found " + parameters["word"]), 0.25, {"hits": 1}
'''

LOOK_UP_CONFIG = """
tools:
  - class_name: look_up_tool.LookUp
    config: {type: native}
    tool_schema:
      type: function
      function:
        name: look_up
        description: Look up a word.
        parameters:
          type: object
          properties: {word: {type: string, description: the word}}
          required: [word]
"""


class Model:
    """As vLLMHttpServer.generate: token ids in, TokenOutput out. What it answers is said by its subclasses."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **more: Any) -> Any:
        text = self.tokenizer.decode(prompt_ids)
        question = text.rpartition("user\n")[2].split("<|im_end|>")[0]
        return await self.answer(question, text)

    async def answer(self, question: str, text: str) -> Any:
        raise NotImplementedError

    def output(self, answer: str, stop_reason: str = "completed", global_steps: int = 2) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        ids = self.tokenizer.encode(answer, add_special_tokens=False)
        logprobs = [-0.5 - number / 1000 for number in range(len(ids))]
        extra = {"global_steps": global_steps}
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason=stop_reason, extra_fields=extra)


class Judge:
    """As RewardLoopWorker.compute_score. A longer answer is better."""

    async def compute_score(self, data: Any) -> dict[str, Any]:
        import rolltrace

        @rolltrace.rollout_trace_op(name="judge", kind="reward")
        async def judge(tokens: int) -> float:
            return tokens / 100

        mask, width = data.batch["attention_mask"], data.batch["prompts"].shape[1]
        score = await judge(int(mask[-1, width:].sum()))
        return {"reward_score": score, "reward_extra_info": {"acc": 1.0, "length": 100 * score}}


def config_of(model: str, experiment: str, *more: str) -> DictConfig:
    """The config of a training run whose rollouts are traced."""
    return composed(keys_of(model, experiment, *more))


def keys_of(model: str, experiment: str, *more: str) -> list[str]:
    """The same, as one types it."""
    return [
        f"actor_rollout_ref.model.path={model}",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.prompt_length=1024",
        "actor_rollout_ref.rollout.response_length=512",
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        "actor_rollout_ref.rollout.multi_turn.format=hermes",
        "actor_rollout_ref.rollout.agent.num_workers=2",
        "actor_rollout_ref.rollout.trace.token2text=True",
        "trainer.project_name=maths",
        f"trainer.experiment_name={experiment}",
        *more,
    ]


def composed(keys: list[str]) -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=keys)


def batch_of(
    questions: list[str], *, n: int = 1, agent: str = "tool_agent", step: int = 3, validate: bool = False, **meta: Any
) -> DataProto:
    """Each question n times, one after the other, as a trainer repeats them."""
    asked = [(index, question) for index, question in enumerate(questions) for _ in range(n)]

    def column(values: list[Any]) -> np.ndarray:
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made

    return DataProto(
        batch=None,
        non_tensor_batch={
            "raw_prompt": column([[{"role": "user", "content": question}] for _, question in asked]),
            "agent_name": column([agent] * len(asked)),
            "index": column([index for index, _ in asked]),
            "uid": column([f"uid-{index}" for index, _ in asked]),
            "data_source": column(["arithmetic"] * len(asked)),
            "tools_kwargs": column([{} for _ in asked]),
        },
        meta_info={"global_steps": step, "validate": validate, **meta},
    )
