"""Two groups of two trajectories, written by ART's own logger into the folder that is named."""

from __future__ import annotations

import sys
from pathlib import Path

from art.trajectories import Trajectory, TrajectoryGroup
from art.utils.trajectory_logging import write_trajectory_groups_parquet
from openai.types.chat.chat_completion import Choice


def choice(**message: object) -> Choice:
    return Choice.model_validate({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}})


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 17, "b": 25}'}}


def trajectory(reward: float) -> Trajectory:
    said = [
        {"role": "user", "content": "17+25?"},
        choice(content=None, tool_calls=[CALL]),
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        choice(content="42"),
    ]
    return Trajectory(messages_and_choices=said, reward=reward, metrics={"correct": reward}, metadata={"q": "1"})


if __name__ == "__main__":
    file = Path(sys.argv[1]) / "trajectories" / "train" / "0003.parquet"
    file.parent.mkdir(parents=True)
    write_trajectory_groups_parquet([TrajectoryGroup([trajectory(0.0), trajectory(1.0)]) for _ in range(2)], str(file))
