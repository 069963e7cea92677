"""How many tokens a call took, as engines, SDKs and frameworks say it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from rolltrace.messages import join_stream
from rolltrace.record import Snapshotter, decode_value
from rolltrace.record.usage import Usage, usage_of
from tests.replies import (
    CHAT_USAGE,
    SGLANG,
    TGI,
    anthropic,
    anthropic_events,
    chat,
    chat_chunks,
    completion,
    langchain,
    response,
    response_events,
    vllm,
)


def seen(value: Any) -> Any:
    """The value as it comes out of a journal."""
    return decode_value(Snapshotter().take(value))


ALL = Usage(10, 5, 4, 2)


@pytest.mark.parametrize(
    ("returned", "usage"),
    [
        (chat(), ALL),
        (chat_chunks(), ALL),
        (completion(), ALL),
        (response(), ALL),
        (response_events(ended=True), ALL),
        (anthropic(), Usage(10, 5, 4, None)),
        (anthropic_events(), Usage(10, 5, 4, None)),
        (langchain(), ALL),
        ({"messages": [HumanMessage("sure?"), langchain()]}, ALL),
        (AIMessage("yes", response_metadata={"token_usage": CHAT_USAGE}), ALL),
        (SGLANG, Usage(2, 2, 1, None)),
        (TGI, Usage(None, 2, None, None)),
        ([vllm()], Usage(None, None, 1, None)),
        ("yes", Usage()),
        ({"usage": {"prompt_tokens": "many", "completion_tokens": -1}}, Usage()),
    ],
)
def test_usage_is_read_in_the_words_of_each_server(returned: Any, usage: Usage) -> None:
    assert usage_of(join_stream(seen(returned))) == usage
