"""mini-swe-agent with a model that plays its part; its trajectory is saved in the folder that is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

COMMANDS = ["echo $((17+25))", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 42"]


def answers() -> list[dict[str, Any]]:
    outputs = []
    for number, command in enumerate(COMMANDS):
        call = {
            "id": f"call_{number}", "type": "function",
            "function": {"name": "bash", "arguments": f'{{"command": "{command}"}}'},
        }  # fmt: skip
        action = {"command": command, "tool_call_id": f"call_{number}"}
        outputs.append(make_toolcall_output("I add.", [call], [action]))
    return outputs


if __name__ == "__main__":
    agent = DefaultAgent(
        DeterministicToolcallModel(outputs=answers()),
        LocalEnvironment(),
        system_template="Be brief.",
        instance_template="{{task}}",
        step_limit=5,
        cost_limit=0.0,
        output_path=Path(sys.argv[1]) / "sums.traj.json",
    )
    agent.run("What is 17+25?")
