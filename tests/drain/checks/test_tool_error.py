"""Tools that raise, and tools that say in the words of a protocol that they failed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rolltrace

from .conftest import Find, generate, tool


def test_a_tool_that_raises_is_flagged(find: Find) -> None:
    def rollout() -> None:
        with pytest.raises(ValueError, match="no such page"):
            tool(ValueError("no such page"))

    (found,) = find(rollout)
    assert (found["flag"], found["detail"]) == ("tool_error", {"error": "ValueError: no such page"})


@pytest.mark.parametrize("output", [{"isError": True, "content": []}, {"is_error": True, "content": "no"}])
def test_a_result_that_says_so_is_flagged(find: Find, output: Any) -> None:
    (found,) = find(lambda: tool(output))
    assert (found["flag"], found["detail"]) == ("tool_error", {})


@pytest.mark.parametrize(
    "output",
    ["Error: no such file", {"error": "none"}, {"isError": False}, {"is_error": "true"}, {"status": "error"}, None],
)
def test_a_result_that_reads_like_an_error_is_not(find: Find, output: Any) -> None:
    assert find(lambda: tool(output)) == []


def test_what_is_no_tool_may_raise(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="env")
    def step() -> None:
        raise ValueError

    def rollout() -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - which one is not the point
            step()
        generate(output={"isError": True, "text": "x"})

    assert find(rollout) == []


def test_a_tool_that_was_cancelled_did_not_fail(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="tool")
    async def slow() -> None:
        await asyncio.Event().wait()

    async def impatient() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow(), 0.01)

    assert find(lambda: asyncio.run(impatient())) == []
