"""A model call whose answer nobody can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import rolltrace
from tests.replies import anthropic, chat_chunks, langchain, vllm

from .conftest import Find, generate, tool


class Odd:
    """A result of which only its own library knows what it says."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        (None, {"returned": "nothing"}),
        (17, {"returned": "int"}),
        ({"embedding": "of a text"}, {"returned": "dict", "fields": ["embedding"]}),
        (Odd(payload=[1], code=0), {"returned": "dict", "fields": ["payload", "code"]}),
        (object(), {"returned": "builtins.object"}),
    ],
)
def test_what_cannot_be_read_is_flagged_with_its_form(find: Find, output: Any, detail: dict[str, Any]) -> None:
    (found,) = find(lambda: generate([1], output=output))
    assert (found["flag"], found["detail"]) == ("unread_reply", detail)


@pytest.mark.parametrize("output", [vllm(), anthropic(), langchain(), chat_chunks(), [vllm("a"), vllm("b")], "yes"])
def test_what_can_be_read_is_not(find: Find, output: Any) -> None:
    assert find(lambda: generate(output=output)) == []


def test_a_stream_of_which_only_a_part_fits_is_flagged(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def stream() -> Iterator[str]:
        yield from ["x" * 400] * 4

    (found,) = find(lambda: list(stream()), limits={"max_bytes": 1000})
    assert (found["flag"], found["detail"]) == ("unread_reply", {"returned": "stream", "items": 4, "kept_items": 2})


def test_a_long_stream_of_a_model_is_kept_to_its_end(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def stream() -> Iterator[str]:
        yield from map(str, range(20))

    assert find(lambda: list(stream()), limits={"max_stream_items": 3}) == []


def test_only_model_calls_that_ended_well_are_looked_at(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def failing() -> None:
        raise TimeoutError

    def rollout() -> None:
        tool(None)
        with pytest.raises(TimeoutError):
            failing()

    assert find(rollout) == []
