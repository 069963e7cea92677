"""What stands around an agent loop, in each release of verl. Stand-ins are the model, the user and the reward only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import ray
from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.agent_loop import agent_loop

from tests.integrations.verl import parts
from tests.integrations.verl.parts import LOOK_UP, LOOK_UP_CONFIG, Judge, config_of

BEFORE_0_8 = hasattr(agent_loop, "AsyncLLMServerManager")
"""Whether workers make their own client of the model, from the list of servers."""
MODEL_CALL = "AsyncLLMServerManager.generate" if BEFORE_0_8 else "LLMServerClient.generate"

DOUBTER = '''
from verl.interactions.base import BaseInteraction

class Doubter(BaseInteraction):
    """A user who asks back once."""

    async def generate_response(self, instance_id, messages, **kwargs):
        asked = sum(message["role"] == "user" for message in messages)
        return asked > 1, "are you sure" if asked == 1 else "thanks", 0.5, {"asked": asked}
'''

INTERACTION_CONFIG = """
interaction:
  - name: doubter
    class_name: doubter.Doubter
    config: {}
"""


class Model(parts.Model):
    """It looks up what it is asked to, and then answers."""

    async def answer(self, question: str, text: str) -> Any:
        if "look" in question and "<|im_start|>tool" not in text:
            call = '{"name": "look_up", "arguments": {"word": "cat"}}'
            return self.output(f"let me see<tool_call>{call}</tool_call><|im_end|>")
        return self.output(f"my answer to {question} is 4<|im_end|>")


class Rig:
    """A config, a model server and a reward worker, in one Ray session."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder, model
        (folder / "look_up_tool.py").write_text(LOOK_UP)
        (folder / "look_up.yaml").write_text(LOOK_UP_CONFIG)
        (folder / "doubter.py").write_text(DOUBTER)
        (folder / "interactions.yaml").write_text(INTERACTION_CONFIG)
        self.server = ray.remote(Model).options(num_cpus=0).remote(model)
        self.judge = ray.remote(Judge).options(num_cpus=0).remote()

    def config(self, experiment: str, *more: str) -> DictConfig:
        return config_of(
            self.model,
            experiment,
            "actor_rollout_ref.rollout.nnodes=1",
            "actor_rollout_ref.rollout.n_gpus_per_node=1",
            "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
            f"actor_rollout_ref.rollout.multi_turn.tool_config_path={self.folder / 'look_up.yaml'}",
            "actor_rollout_ref.rollout.trace.backend=rolltrace",
            *more,
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


def batch_of(questions: list[str], **more: Any) -> DataProto:
    """As in every release, with the user who is asked back by."""
    batch = parts.batch_of(questions, **more)
    extra = np.empty(len(batch), dtype=object)
    extra[:] = [{"interaction_kwargs": {"name": "doubter"}} for _ in range(len(batch))]
    batch.non_tensor_batch["extra_info"] = extra
    return batch
