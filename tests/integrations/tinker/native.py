"""What tinker-cookbook writes about rollouts itself: its JSON-lines summaries, one line for each trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolltrace.query import Trajectory

Line = dict[str, Any]


def summaries(log: Path, name: str = "train") -> list[Line]:
    files = sorted(log.glob(f"iteration_*/{name}_rollout_summaries.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def told_by_summary(line: Line) -> str:
    """All that a summary says of a trajectory besides where it stands."""
    names = ("ob_len", "ac_len", "reward", "episode_done", "metrics", "logs")
    steps = [{**{name: step[name] for name in names}, "reward": float(step["reward"])} for step in line["steps"]]
    said = {
        "tags": line["tags"],
        "version": line["sampling_client_step"],
        "reward": float(line["total_reward"]),
        "group_reward": float(line["final_reward"]),
        "traj_idx": line["traj_idx"],
        "steps": steps,
    }
    return json.dumps(said, sort_keys=True)


def told_by_store(recorded: Trajectory) -> str:
    """The same of a trajectory in the store."""
    turns = [op for op in recorded.walk() if op.kind == "llm"]
    steps = []
    for step, op in zip(recorded.transitions, turns):
        fields = step["fields"] or {}
        assert op.tokens is not None
        steps.append(
            {
                "ob_len": len(op.tokens.prompt_ids or ()),
                "ac_len": len(op.tokens.response_ids or ()),
                "reward": step["reward"],
                "episode_done": step["episode_done"],
                "metrics": fields.get("metrics") or {},
                "logs": fields.get("logs") or {},
            }
        )
    rewards = [score for score in recorded.scores if score["name"] == "reward"]
    places = [score["value"] for score in recorded.scores if score["name"] == "traj_idx"]
    said = {
        "tags": recorded.tags.get("tags", []),
        "version": recorded.policy_version_max,
        "reward": recorded.reward,
        "group_reward": rewards[-1]["terms"]["group"],
        "traj_idx": int(places[-1]) if places else recorded.rollout_n,
        "steps": steps,
    }
    return json.dumps(said, sort_keys=True)
