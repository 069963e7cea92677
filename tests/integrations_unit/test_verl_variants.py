"""What kind of op a function is, and under which name a call is recorded: without verl."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

import rolltrace
from rolltrace.integrations.verl.ops import names_of
from rolltrace.integrations.verl.variants import Variants, kind_of
from rolltrace.record import OpEnd, decode_value
from rolltrace.testing import Recording


class Client:
    async def generate(self, request_id: str, *, prompt_ids: list[int]) -> Any:
        extra = {"global_steps": 4, "max_global_steps": 5}
        return SimpleNamespace(token_ids=[1], stop_reason="completed", extra_fields=extra)


class Tool:
    name = "search"

    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs: Any) -> str:
        return "found"


def ends(recording: Recording) -> list[OpEnd]:
    return [each for each in recording.records if isinstance(each, OpEnd)]


@pytest.mark.parametrize(
    ("backend", "names"),
    [
        ("rolltrace", ("rolltrace",)),
        ("rolltrace+mlflow + weave", ("rolltrace", "mlflow", "weave")),
        ("mlflow", None),
        ("rolltraces", None),
        (None, None),
    ],
)
def test_only_a_backend_that_begins_with_rolltrace_is_ours(backend: Any, names: Any) -> None:
    assert names_of(backend) == names


def test_kinds_are_told_by_name_and_arguments() -> None:
    assert kind_of(Client.generate) == "llm"
    assert kind_of(Tool.execute) == "tool"
    assert kind_of(lambda prompt: prompt) == "other"


async def test_a_tool_goes_by_its_own_name_and_leaves_the_conversation_out(traced: Recording) -> None:
    tool = Tool()
    shell = Variants(Tool.execute).of((tool,))
    assert inspect.iscoroutinefunction(shell)
    assert await shell(tool, "1", {"word": "cat"}, agent_data=object(), more=1) == "found"
    (op,) = ends(traced)
    assert (op.name, op.kind) == ("search", "tool")
    assert decode_value(op.inputs) == {"instance_id": "1", "parameters": {"word": "cat"}, "kwargs": {"more": 1}}


async def test_a_model_call_within_a_model_call_is_an_attempt(traced: Recording) -> None:
    client, variants = Client(), Variants(Client.generate)

    @rolltrace.rollout_trace_op(kind="llm")
    async def generate() -> None:
        await variants.of((client,))(client, "1", prompt_ids=[1])

    await variants.of((client,))(client, "1", prompt_ids=[1])
    await generate()
    assert [(op.name, op.kind) for op in ends(traced)][:2] == [("Client.generate", "llm"), ("Client.generate", "other")]


async def test_the_newest_weights_are_the_policy_version(traced: Recording) -> None:
    client = Client()
    await Variants(Client.generate).of((client,))(client, "1", prompt_ids=[1])
    assert decode_value(ends(traced)[0].outputs)["policy_version"] == 5
