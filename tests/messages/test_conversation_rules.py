"""Which messages a trajectory had, from what its ops were given and returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rolltrace.messages import EndedOp, MessageRow, Transcript, read_reply


def op(kind: str, inputs: Any, outputs: Any, **fields: Any) -> EndedOp:
    name = fields.pop("name", kind)
    return EndedOp(op_id=fields.pop("op_id", 0), kind=kind, name=name, inputs=inputs, outputs=outputs, **fields)


def rows_of(ops: Sequence[EndedOp]) -> list[MessageRow]:
    """What was said in these ops, which end one after the other."""
    transcript, rows = Transcript(), list[MessageRow]()
    for number, each in enumerate(ops, 1):
        each.op_id, each.start_ns, each.end_ns = each.op_id or number, 2 * number, 2 * number + 1
        rows += transcript.op_ended(each).rows
    rows += transcript.finish().rows
    return [row for row in rows if row.kind == "message" and row.role is not None]


def conversation_of(ops: Sequence[EndedOp]) -> list[dict[str, Any]]:
    return [row.to_message().to_chat() for row in rows_of(ops)]


def reply_of(outputs: Any) -> Any:
    reply = read_reply(outputs)
    return None if reply is None else reply.to_chat()


@pytest.mark.parametrize(
    "outputs",
    [
        "yes",
        {"role": "assistant", "content": "yes"},
        {"content": "yes"},
        {"text": "yes", "token_ids": [1]},
        {"message": {"role": "assistant", "content": "yes"}},
        {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]},
        {"choices": [{"text": "yes"}]},
        {"outputs": [{"text": "yes"}]},
        ["yes"],
    ],
)
def test_replies_of_many_shapes(outputs: Any) -> None:
    assert reply_of(outputs) == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize("outputs", [None, 3, [], {}, {"token_ids": [1]}, ["a", "b"], {"choices": []}])
def test_what_is_no_reply(outputs: Any) -> None:
    assert reply_of(outputs) is None


def test_without_messages_it_is_made_of_prompts_replies_and_tool_results() -> None:
    ops = [
        op("llm", {"prompt": "q"}, "a1"),
        op("tool", {"x": 1}, {"hits": 2}, name="search"),
        op("llm", {"prompt": "q"}, "a2"),
        op("tool", {}, None, name="run", error="ValueError: no"),
        op("other", {"prompt": "ignored"}, "ignored"),
        op("llm", {"prompt": "q2"}, {"token_ids": [1]}),
    ]
    assert conversation_of(ops) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a1"},
        {"role": "tool", "name": "search", "content": '{"hits": 2}'},
        {"role": "assistant", "content": "a2"},
        {"role": "tool", "name": "run", "content": "ValueError: no", "status": "error"},
        {"role": "user", "content": "q2"},
    ]


def test_messages_that_begin_otherwise_are_added() -> None:
    first, last = (
        [{"role": "user", "content": "1"}],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "2"}],
    )
    ops = [op("llm", {"messages": first}, "a"), op("llm", {"messages": last}, {"content": "b", "tool_calls": [1]})]
    odd = {"name": "tool", "arguments": "1"}
    assert conversation_of(ops) == [
        *first,
        {"role": "assistant", "content": "a"},
        *last,
        {"role": "assistant", "content": "b", "tool_calls": [{"type": "function", "function": odd}]},
    ]


@pytest.mark.parametrize("messages", [None, [], "text", [1], [{"content": "no role"}]])
def test_strange_messages_are_no_conversation(messages: Any) -> None:
    assert conversation_of([op("llm", {"messages": messages}, None)]) == []
    assert conversation_of([]) == []


def decoded(prompt: str | None, reply: str | None, kind: str = "llm", outputs: Any = None) -> EndedOp:
    return op(kind, {"prompt_ids": [1]}, outputs or {"token_ids": [2]}, prompt_text=prompt, response_text=reply)


def test_where_there_are_only_tokens_their_text_is_told_what_is_new_of_it() -> None:
    ops = [decoded("q1", "a1"), decoded("q1a1 q2", "a2"), decoded("other", "a3"), decoded("othera3", "a4")]
    assert [(said["role"], said["content"]) for said in conversation_of(ops)] == [
        ("user", "q1"),
        ("assistant", "a1"),
        ("user", " q2"),
        ("assistant", "a2"),
        ("user", "other"),
        ("assistant", "a3"),
        ("assistant", "a4"),
    ]


def test_what_a_tool_said_is_not_told_twice() -> None:
    ops = [decoded("q1", "a1"), op("tool", {}, "found", name="search"), decoded("q1a1<tool>found", "a2")]
    assert [(said["role"], said["content"]) for said in conversation_of(ops)] == [
        ("user", "q1"),
        ("assistant", "a1"),
        ("tool", "found"),
        ("assistant", "a2"),
    ]


def test_a_reply_that_has_a_text_of_its_own_keeps_it() -> None:
    (said,) = conversation_of([decoded(None, "decoded<|im_end|>", outputs={"text": "its own"})])
    assert said["content"] == "its own"


def test_without_a_model_call_the_first_op_with_text_tells_it() -> None:
    ops = [op("other", {}, None), decoded("q", "a", kind="other"), decoded("again", "again", kind="other")]
    assert [said["content"] for said in conversation_of(ops)] == ["q", "a"]


def test_text_of_a_chat_template_becomes_its_messages() -> None:
    first = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    reply = "let me see<|im_end|>"
    result = "\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
    then = "<|im_start|>user\nhurry<|im_end|>\n<|im_start|>assistant\n"
    ops = [
        decoded(first, reply),
        op("tool", {}, "4", name="add"),
        decoded(first + reply + result + then, "four<|im_end|>"),
        decoded(first + reply + result + then + "four<|im_end|>\n" + then, "4!<|im_end|>"),
    ]
    assert conversation_of(ops) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "let me see"},
        {"role": "tool", "name": "add", "content": "4"},
        {"role": "user", "content": "hurry"},
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "hurry"},
        {"role": "assistant", "content": "4!"},
    ]


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


def test_a_reply_of_tool_calls_only_or_of_parts_is_in_the_conversation() -> None:
    asked = [{"role": "user", "content": "1+2?"}]
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "audio": None}
    parts = {"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "3"}]}}]}
    ops = [
        op("llm", {"messages": asked}, {"choices": [{"message": calling}], "usage": {"prompt_tokens": 1}}),
        op("tool", {}, 3, name="add"),
        op("llm", {"prompt": "and?"}, parts),
    ]
    assert conversation_of(ops) == [
        *asked,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "name": "add", "content": "3", "tool_call_id": "c1"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "3"},
    ]


@pytest.mark.parametrize(
    "inputs",
    [
        {"messages": [{"type": "human", "content": "1+2?", "additional_kwargs": {}, "response_metadata": {}}]},
        {"state": {"messages": [{"type": "human", "content": "1+2?"}], "step": 1}},
        {"history": [{"role": "user", "content": "1+2?"}], "model": "m"},
        {"whatever": [["human", "1+2?"]], "tools": [{"type": "function", "function": {"name": "add"}}]},
        [{"role": "user", "content": "1+2?"}],
        {"prompts": ["1+2?"]},
        {"inputs": "1+2?"},
        "1+2?",
    ],
)
def test_the_prompt_is_found_wherever_it_stands(inputs: Any) -> None:
    assert conversation_of([op("llm", inputs, "3")]) == [
        {"role": "user", "content": "1+2?"},
        {"role": "assistant", "content": "3"},
    ]


def test_the_system_prompt_that_stands_beside_the_messages_comes_first() -> None:
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+2?"}
    anthropic = {"system": [{"type": "text", "text": "Be brief."}], "messages": [user]}
    for inputs in (anthropic, {"instructions": "Be brief.", "input": "1+2?"}):
        assert conversation_of([op("llm", inputs, "3")])[:2] == [system, user]


def test_the_prompt_that_vllm_repeats_is_taken_where_only_its_tokens_were_given() -> None:
    output = {"prompt": "1+2?", "prompt_token_ids": [1], "outputs": [{"text": "3", "token_ids": [2]}]}
    assert conversation_of([op("llm", {"prompt_ids": [1]}, [output])])[0] == {"role": "user", "content": "1+2?"}


def long_rollout(turns: int) -> list[EndedOp]:
    """Model calls and tools in turn; each call is given all that was said before."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    ops = []
    for turn in range(turns):
        reply = {"role": "assistant", "content": f"reply {turn}"}
        ops.append(op("llm", {"messages": [*messages]}, reply))
        ops.append(op("tool", {}, f"result {turn}", name="search"))
        messages += [reply, {"role": "tool", "name": "search", "content": f"result {turn}"}]
    return ops


@pytest.mark.parametrize("turns", [3, 300])
def test_each_message_of_a_long_conversation_knows_the_op_that_produced_it(turns: int) -> None:
    ops = long_rollout(turns)
    rows = rows_of(ops)
    assert [row.text for row in rows] == [
        "go", *(text for turn in range(turns) for text in (f"reply {turn}", f"result {turn}"))
    ]  # fmt: skip
    assert [row.op_id for row in rows] == [None, *(each.op_id for each in ops)]


def test_a_long_conversation_whose_history_was_rewritten_has_all_of_it() -> None:
    ops = long_rollout(300)
    for each in ops[400::2]:
        each.inputs["messages"][1:3] = []  # the first turn was cut off
    texts = [row.text for row in rows_of(ops)]
    assert texts[1] == "reply 0"
    assert texts[-1] == "result 299"
    assert len(texts) == 1 + 2 * 300


def test_a_long_conversation_begun_anew_keeps_what_was_said_before() -> None:
    ops = [*long_rollout(150), *long_rollout(150)]
    for each in ops[300::2]:
        each.inputs["messages"][0] = {"role": "user", "content": "go again"}
    texts = [row.text for row in rows_of(ops)]
    assert texts.count("go") == 1
    assert "go again" in texts


def test_a_result_that_no_reply_asked_for_has_the_arguments_of_its_op() -> None:
    asked = [{"role": "user", "content": "1+2?"}]
    (*_, result) = rows_of(
        [op("llm", {"messages": asked}, "add(1, 2)"), op("tool", {"self": 0, "a": 1}, 3, name="add")]
    )
    assert (result.tool_name, result.text, result.read_detail()) == ("add", "3", {"arguments": '{"a": 1}'})
