"""What stands around an agent loop, in each release of verl. Stand-ins are the model, the user and the reward only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import ray
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.agent_loop import agent_loop

BEFORE_0_8 = hasattr(agent_loop, "AsyncLLMServerManager")
"""Whether workers make their own client of the model, from the list of servers."""
MODEL_CALL = "AsyncLLMServerManager.generate" if BEFORE_0_8 else "LLMServerClient.generate"

MODULES = '''
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse

class LookUp(BaseTool):
    """As most tools: it has an `execute` of its own, which verl does not decorate."""

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text="found " + parameters["word"]), 0.25, {"hits": 1}

try:
    from verl.interactions.base import BaseInteraction
except ImportError:
    pass
else:

    class Doubter(BaseInteraction):
        """A user who asks back once."""

        async def generate_response(self, instance_id, messages, **kwargs):
            asked = sum(message["role"] == "user" for message in messages)
            return asked > 1, "are you sure" if asked == 1 else "thanks", 0.5, {"asked": asked}
'''

TOOL_CONFIG = """
tools:
  - class_name: rolltrace_rig.LookUp
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

INTERACTION_CONFIG = """
interaction:
  - name: doubter
    class_name: rolltrace_rig.Doubter
    config: {}
"""


class Model:
    """As vLLMHttpServer.generate: token ids in, TokenOutput out. It looks up what it is asked to, and then answers."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **more: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        text = self.tokenizer.decode(prompt_ids)
        question = text.rpartition("user\n")[2].split("<|im_end|>")[0]
        if "look" in question and "<|im_start|>tool" not in text:
            call = '{"name": "look_up", "arguments": {"word": "cat"}}'
            answer = f"let me see<tool_call>{call}</tool_call><|im_end|>"
        else:
            answer = f"my answer to {question} is 4<|im_end|>"
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

        mask, width = data.batch["attention_mask"], data.batch["prompts"].shape[1]
        score = await judge(int(mask[0, width:].sum()))
        return {"reward_score": score, "reward_extra_info": {"acc": 1.0, "length": 100 * score}}


class Rig:
    """A config, a model server and a reward worker, in one Ray session."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder, model
        (folder / "rolltrace_rig.py").write_text(MODULES)
        (folder / "tools.yaml").write_text(TOOL_CONFIG)
        (folder / "interactions.yaml").write_text(INTERACTION_CONFIG)
        self.server = ray.remote(Model).options(num_cpus=0).remote(model)
        self.judge = ray.remote(Judge).options(num_cpus=0).remote()

    def config(self, experiment: str, *more: str) -> DictConfig:
        with initialize_config_module("verl.trainer.config", version_base=None):
            return compose(
                "ppo_trainer",
                overrides=[
                    f"actor_rollout_ref.model.path={self.model}",
                    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
                    "actor_rollout_ref.rollout.name=vllm",
                    "actor_rollout_ref.rollout.nnodes=1",
                    "actor_rollout_ref.rollout.n_gpus_per_node=1",
                    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
                    "actor_rollout_ref.rollout.prompt_length=1024",
                    "actor_rollout_ref.rollout.response_length=512",
                    "actor_rollout_ref.rollout.calculate_log_probs=True",
                    "actor_rollout_ref.rollout.multi_turn.format=hermes",
                    f"actor_rollout_ref.rollout.multi_turn.tool_config_path={self.folder / 'tools.yaml'}",
                    "actor_rollout_ref.rollout.agent.num_workers=2",
                    "actor_rollout_ref.rollout.trace.backend=rolltrace",
                    "actor_rollout_ref.rollout.trace.token2text=True",
                    "trainer.project_name=maths",
                    f"trainer.experiment_name={experiment}",
                    *more,
                ],
            )

    def in_process(self, config: DictConfig, batch: DataProto) -> DataProto:
        async def roll_out() -> DataProto:
            if BEFORE_0_8:
                balancer = agent_loop.GlobalRequestLoadBalancer.options(num_cpus=0).remote(server_actor_ids=["one"])
                worker = agent_loop.AgentLoopWorker(config, [("one", self.server)], balancer, [self.judge])
            else:
                worker = agent_loop.AgentLoopWorker(config, self._client(config), None, [self.judge])
            return await worker.generate_sequences(batch)

        return asyncio.run(roll_out())

    def manager(self, config: DictConfig, *, judged: bool = True) -> Any:
        judges = [self.judge] if judged else None
        if not BEFORE_0_8:
            return agent_loop.AgentLoopManager.create(
                config=config, llm_client=self._client(config), reward_loop_worker_handles=judges
            )
        rig = self

        class Replica:
            """As vLLMReplica, of a server that runs already."""

            def __init__(self, **_: Any) -> None:
                self._server_handle, self._server_address = rig.server, "one"

            async def init_standalone(self) -> None:
                pass

        class Manager(agent_loop.AgentLoopManager):
            rollout_replica_class = Replica

        return Manager.create(config=config, reward_loop_worker_handles=judges)

    def _client(self, config: DictConfig) -> Any:
        from verl.workers.rollout import llm_server

        balancer = llm_server.GlobalRequestLoadBalancer
        if isinstance(balancer, type):  # since verl 0.9.0
            balancer = ray.remote(balancer)
        handle = balancer.options(num_cpus=0).remote(servers={"one": self.server})
        return llm_server.LLMServerClient(config, load_balancer_handle=handle)


def batch_of(
    questions: list[str], *, n: int = 1, agent: str = "tool_agent", step: int = 3, **meta_info: Any
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
            "extra_info": column([{"interaction_kwargs": {"name": "doubter"}} for _ in asked]),
        },
        meta_info={"global_steps": step, "validate": False, **meta_info},
    )
