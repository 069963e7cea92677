"""All that stands around an agent loop of verl, with a stand-in only for the model and for the reward."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import ray
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopManager, AgentLoopWorker
from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer, LLMServerClient

TOOLS = '''
from verl.tools.function_tool import function_tool

@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: first
        b: second
    """
    return str(int(a) + int(b))

@function_tool
def divide(a: int, b: int) -> str:
    """Divide two numbers.

    Args:
        a: first
        b: second
    """
    return str(int(a) / int(b))
'''

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
    """As vLLMHttpServer.generate: token ids in, TokenOutput out. The question says which tool it calls first."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **more: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        text = self.tokenizer.decode(prompt_ids)
        calls = {
            "add": '{"name": "add", "arguments": {"a": 2, "b": 2}}',
            "divide": '{"name": "divide", "arguments": {"a": 2, "b": 0}}',
            "look": '{"name": "look_up", "arguments": {"word": "cat"}}',
        }
        question = text.rpartition("user\n")[2].split("<|im_end|>")[0]
        if "hang" in question:
            await asyncio.sleep(1000)
        if "interrupt" in question and not text.endswith("the answer"):  # new weights come while it writes
            ids = self.tokenizer.encode("the answer", add_special_tokens=False)
            return TokenOutput(
                token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason="aborted", extra_fields={"global_steps": 1}
            )
        call = next((call for word, call in calls.items() if word in question), None)
        if call and "<|im_start|>tool" not in text:
            answer = f"let me see<tool_call>{call}</tool_call><|im_end|>"
        else:
            answer = f"the answer to {question} is 4<|im_end|>"
        ids = self.tokenizer.encode(answer, add_special_tokens=False)
        logprobs = [-0.5 - number / 1000 for number in range(len(ids))]
        extra = {"global_steps": 2}
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason="completed", extra_fields=extra)


class Judge:
    """As RewardLoopWorker.compute_score. A longer answer is better."""

    async def compute_score(self, data: Any) -> dict[str, Any]:
        import rolltrace

        @rolltrace.rollout_trace_op(name="judge", kind="reward")
        async def judge(tokens: int) -> float:
            return tokens / 100

        score = await judge(int(data.non_tensor_batch["response_len"][-1]))
        return {"reward_score": score, "reward_extra_info": {"acc": 1.0, "length": 100 * score}}


class Rig:
    """A config, a model server and a reward worker, in one Ray session."""

    def __init__(self, folder: Path, model: str) -> None:
        self.model = model
        self.folder = folder
        (folder / "tools.py").write_text(TOOLS)
        (folder / "look_up_tool.py").write_text(LOOK_UP)
        (folder / "look_up.yaml").write_text(LOOK_UP_CONFIG)
        self.server = ray.remote(Model).options(num_cpus=0).remote(model)
        self.judge = ray.remote(Judge).options(num_cpus=0).remote()
        balancer = ray.remote(GlobalRequestLoadBalancer).options(num_cpus=0)
        self.balancer = balancer.remote(servers={"one": self.server})

    def config(self, experiment: str, *more: str, backend: str = "rolltrace") -> DictConfig:
        with initialize_config_module("verl.trainer.config", version_base=None):
            return compose(
                "ppo_trainer",
                overrides=[
                    f"actor_rollout_ref.model.path={self.model}",
                    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
                    "actor_rollout_ref.rollout.name=vllm",
                    "actor_rollout_ref.rollout.prompt_length=1024",
                    "actor_rollout_ref.rollout.response_length=512",
                    "actor_rollout_ref.rollout.calculate_log_probs=True",
                    "actor_rollout_ref.rollout.multi_turn.format=hermes",
                    f"actor_rollout_ref.rollout.multi_turn.function_tool_path={self.folder / 'tools.py'}",
                    f"actor_rollout_ref.rollout.multi_turn.tool_config_path={self.folder / 'look_up.yaml'}",
                    "actor_rollout_ref.rollout.agent.num_workers=2",
                    f"actor_rollout_ref.rollout.trace.backend={backend}",
                    "actor_rollout_ref.rollout.trace.token2text=True",
                    "trainer.project_name=maths",
                    f"trainer.experiment_name={experiment}",
                    *more,
                ],
            )

    def client(self, config: DictConfig) -> LLMServerClient:
        return LLMServerClient(config, load_balancer_handle=self.balancer)

    def in_process(self, config: DictConfig, batch: DataProto, *, judged: bool = True) -> DataProto:
        async def roll_out() -> DataProto:
            worker = AgentLoopWorker(config, self.client(config), None, [self.judge] if judged else None)
            return await worker.generate_sequences(batch)

        return asyncio.run(roll_out())

    def manager(self, config: DictConfig) -> AgentLoopManager:
        return AgentLoopManager.create(
            config=config, llm_client=self.client(config), reward_loop_worker_handles=[self.judge]
        )


def batch_of(
    questions: list[str], *, n: int = 1, agent: str = "tool_agent", step: int = 3, validate: bool = False
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
        meta_info={"global_steps": step, "validate": validate},
    )
