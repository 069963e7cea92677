"""What an agent loop returned, and the same as it was traced: in every release of verl."""

from __future__ import annotations

from typing import Any

import pytest
from verl import DataProto

from rolltrace.query import Op, Trajectory


def returned(output: DataProto) -> list[dict[str, Any]]:
    """What the agent loop returned of each rollout, without the padding."""
    found = []
    width = output.batch["prompts"].shape[1]
    for row in range(len(output)):
        attended = output.batch["attention_mask"][row].bool()
        prompt, response = attended[:width], attended[width:]
        found.append(
            {
                "prompt": output.batch["prompts"][row][prompt].tolist(),
                "response": output.batch["responses"][row][response].tolist(),
                "mask": output.batch["response_mask"][row][response].tolist(),
                "logprobs": output.batch["rollout_log_probs"][row][response].tolist(),
                "reward": round(output.batch["rm_scores"][row].sum().item(), 6),
                "turns": int(output.non_tensor_batch["__num_turns__"][row]),
            }
        )
    return found


def traced(each: Trajectory) -> dict[str, Any]:
    """The same of a trajectory."""
    run = next(op for op in each.walk() if op.name.endswith(".run"))
    tokens = next(tokens for tokens in each.tokens if tokens.op_id == run.op_id)
    return {
        "prompt": tokens.prompt_ids,
        "response": tokens.response_ids,
        "mask": tokens.response_mask,
        "logprobs": pytest.approx(tokens.logprobs, abs=1e-6),
        "reward": round(each.reward or 0.0, 6),
        "turns": run.outputs["num_turns"],
    }


def tree(op: Op) -> Any:
    """An op and those inside it, by name."""
    return {op.name: [tree(child) for child in op.children]} if op.children else op.name
