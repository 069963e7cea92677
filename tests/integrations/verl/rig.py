"""All that stands around an agent loop of verl, with a stand-in only for the model and for the reward."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopManager, AgentLoopWorker
from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer, LLMServerClient

from . import parts
from .parts import LOOK_UP, LOOK_UP_CONFIG, Judge, config_of

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


class Model(parts.Model):
    """The question says which tool it calls first."""

    async def answer(self, question: str, text: str) -> Any:
        calls = {
            "add": '{"name": "add", "arguments": {"a": 2, "b": 2}}',
            "divide": '{"name": "divide", "arguments": {"a": 2, "b": 0}}',
            "look": '{"name": "look_up", "arguments": {"word": "cat"}}',
        }
        if "hang" in question:
            await asyncio.sleep(1000)
        if "interrupt" in question and not text.endswith("the answer"):  # new weights come while it writes
            return self.output("the answer", "aborted", global_steps=1)
        call = next((call for word, call in calls.items() if word in question), None)
        if call and "<|im_start|>tool" not in text:
            return self.output(f"let me see<tool_call>{call}</tool_call><|im_end|>")
        return self.output(f"the answer to {question} is 4<|im_end|>")


def write_tools(folder: Path) -> None:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "look_up_tool.py").write_text(LOOK_UP)
    (folder / "look_up.yaml").write_text(LOOK_UP_CONFIG)


def keys_with_tools(folder: Path, backend: str) -> list[str]:
    return [
        f"actor_rollout_ref.rollout.multi_turn.function_tool_path={folder / 'tools.py'}",
        f"actor_rollout_ref.rollout.multi_turn.tool_config_path={folder / 'look_up.yaml'}",
        f"actor_rollout_ref.rollout.trace.backend={backend}",
    ]


class Rig:
    """A config, a model server and a reward worker, in one Ray session."""

    def __init__(self, folder: Path, model: str) -> None:
        self.model = model
        self.folder = folder
        write_tools(folder)
        self.server = ray.remote(Model).options(num_cpus=0).remote(model)
        self.judge = ray.remote(Judge).options(num_cpus=0).remote()
        balancer = ray.remote(GlobalRequestLoadBalancer).options(num_cpus=0)
        self.balancer = balancer.remote(servers={"one": self.server})

    def config(self, experiment: str, *more: str, backend: str = "rolltrace") -> DictConfig:
        return config_of(self.model, experiment, *keys_with_tools(self.folder, backend), *more)

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
