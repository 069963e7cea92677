"""Run a small evaluation with inspect's mock model, which calls a tool; the log goes into the folder that is named."""

from __future__ import annotations

import sys
from typing import Any

from inspect_ai import Task, task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import Tool, tool


@tool
def add() -> Tool:
    async def execute(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one number
            b: the other
        """
        return a + b

    return execute


@task
def sums() -> Task:
    samples = [
        Sample(input="What is 17+25? " + "Think. " * 40, target="42", id="q-1"),
        Sample("6*7?", target="42", id="q-2"),
    ]
    return Task(
        dataset=samples,
        solver=[system_message("Be brief."), use_tools(add()), generate()],
        scorer=match(),
    )


def answers() -> list[Any]:
    call = ModelOutput.for_tool_call("mockllm/model", "add", {"a": 17, "b": 25})
    outputs = [call, *(ModelOutput.from_content("mockllm/model", answer) for answer in ("42", "41"))]
    for output in outputs:  # else inspect counts with a tokenizer that it downloads
        output.usage = ModelUsage(input_tokens=20, output_tokens=5, total_tokens=25)
    return outputs


if __name__ == "__main__":
    model = get_model("mockllm/model", custom_outputs=answers())
    (log,) = run_eval(sums(), model=model, log_dir=sys.argv[1], display="none", max_samples=1, log_format="eval")
    assert log.status == "success", log.error
