"""The real `main_ppo`, in a process of its own that can be killed, with the stand-ins for model server and engines.

    TRAINING_FOLDER=... TRAINING_RUN=1 python -m PACKAGE.main_run KEY=VALUE...

What happens is noted in the folder: each attempt at a rollout, in `attempts.jsonl`, and what the trainer trained on, in
`trained.jsonl`. A question with `held` in it gets no second answer before there is a file `go`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from pathlib import Path
from typing import Any

import ray
from verl.trainer import main_ppo
from verl.trainer.ppo import v1
from verl.trainer.ppo.v1 import trainer_base
from verl.workers.rollout.llm_server import LLMServerManager

from .stand_ins import Here, Server, serve
from .training_run import ObservedAsync, known_balancer

FOLDER = "TRAINING_FOLDER"
WHICH = "TRAINING_RUN"
"""The variables that say where to note what happens, and which run it is."""

NOTED = """
import json, os, uuid
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

def note(**what):
    with open(os.path.join(os.environ["TRAINING_FOLDER"], "attempts.jsonl"), "a") as file:
        file.write(json.dumps(what) + "\\n")

class Noted(ToolAgentLoop):
    async def run(self, sampling_params, **kwargs):
        attempt = uuid.uuid4().hex
        key = [int(os.environ["TRAINING_RUN"]), kwargs["uid"], kwargs["session_id"]]
        note(attempt=attempt, key=key, is_over=False)
        output = await super().run(sampling_params, **kwargs)
        note(attempt=attempt, key=key, is_over=True, response=output.response_ids)
        return output
"""


class HoldingServer(Server):
    """Says in which run it answers."""

    async def answer(self, question: str, text: str) -> Any:
        if "held" in question and "<|im_start|>tool" in text:
            while not Path(os.environ[FOLDER], "go").exists():
                await asyncio.sleep(0.05)
        output = await super().answer(question, text)
        said = self.tokenizer.decode(output.token_ids)
        return self.output(said.replace("the answer", f"in run {os.environ[WHICH]} the answer"))


class Noting(ObservedAsync):
    """Notes what it trained on, once it has."""

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        result = super()._update_actor(batch, metrics)
        with Path(os.environ[FOLDER], "trained.jsonl").open("a") as file:
            for row in self.trained[self.global_steps]:
                said = {"run": int(os.environ[WHICH]), "step": self.global_steps, "uid": row.uid}
                file.write(json.dumps({**said, "response": row.response, "reward": row.reward}) + "\n")
        return result


class Runner:
    """As the one of `main_ppo`, which it calls."""

    def run(self, config: Any) -> None:
        serve(config.actor_rollout_ref.model.path, HoldingServer)
        trainer_base.RayWorkerGroup = Here
        LLMServerManager._init_global_load_balancer = known_balancer
        v1.get_trainer_cls = lambda mode: Noting
        self.theirs = main_ppo.TaskRunnerV1.__ray_metadata__.modified_class()
        self.theirs.run(config)


if __name__ == "__main__":
    imported = importlib.import_module(f"{__package__}.main_run")  # workers have another `__main__`
    main_ppo.TaskRunnerV1 = ray.remote(imported.Runner)
    main_ppo.main()
