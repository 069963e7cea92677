"""Agent loop managers that make rollouts in their own way, without verl's workers, and put them into the queue."""

from __future__ import annotations

from typing import Any

import torch
import transfer_queue
from tensordict import NonTensorData, NonTensorStack
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

import rolltrace


class OwnManager:
    """Knows nothing of rolltrace."""

    def __init__(self, config: Any) -> None:
        self.number = config.actor_rollout_ref.rollout.n

    @classmethod
    def create(cls, config: Any, **more: Any) -> OwnManager:
        return cls(config)

    def roll_out(self, prompt: dict[str, Any], session: int) -> AgentLoopOutput:
        return AgentLoopOutput(
            prompt_ids=[1, 2, 3],
            response_ids=[4, 5 + session],
            response_mask=[1, 1],
            response_logprobs=[-0.5, -0.5],
            reward_score=session / 4,
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields={
                "reward_extra_info": {"acc": 1.0}, "min_global_steps": 0, "max_global_steps": 0,
                "turn_scores": [], "tool_rewards": [],
            },
        )  # fmt: skip

    def generate_sequences(self, prompts: Any) -> None:
        for at in range(len(prompts)):
            prompt = {name: _item(value, at) for name, value in prompts.items()}
            uid = prompt["uid"]
            for session in range(self.number):
                output = self.roll_out(prompt, session)
                _put(f"{uid}_{session}_0", {**output.as_dict(), **prompt}, prompt["global_steps"])
            transfer_queue.kv_put(key=uid, partition_id="train", tag={"status": "finished"})


class TracingManager(OwnManager):
    """Traces them as docs/howto/verl.md says."""

    def roll_out(self, prompt: dict[str, Any], session: int) -> AgentLoopOutput:
        with rolltrace.rollout_trace_attr(prompt["index"], prompt["global_steps"], session) as rollout:
            output = super().roll_out(prompt, session)
            rollout.reward(output.reward_score)
        output.extra_fields["rolltrace"] = {"id": rollout.id, "rewarded": True}
        return output


def _item(column: Any, at: int) -> Any:
    if isinstance(column, NonTensorStack):
        return column[at].data
    return column.data if isinstance(column, NonTensorData) else column[at]


def _put(key: str, fields: dict[str, Any], step: int) -> None:
    tokens = torch.cat([fields["prompts"], fields["responses"]])
    fields.update(
        loss_mask=fields["response_mask"],
        input_ids=tokens,
        position_ids=torch.arange(len(tokens)),
        multi_modal_inputs={},
    )
    length = {"prompt_len": len(fields["prompts"]), "response_len": len(fields["responses"]), "seq_len": len(tokens)}
    tag = {"status": "success", "global_steps": step, "min_global_steps": 0, "max_global_steps": 0, **length}
    transfer_queue.kv_batch_put(
        keys=[key], partition_id="train", fields=list_of_dict_to_tensordict([fields]), tags=[tag]
    )
