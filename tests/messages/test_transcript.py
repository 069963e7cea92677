"""The transcript of a rollout: everything that was said, once, in the order in which it happened."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace.messages import EndedOp, Transcript, read_ranges
from tests.messages.rollout import Rollout, detail_of, play, result, said, system, user


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("save", [True, False])
def test_a_conversation_that_grows_has_each_message_once(raw: bool, save: bool) -> None:
    rollout = Rollout(raw=raw, save=save)
    play(rollout, 5, lambda history, turn: history)
    rollout.check()
    assert rollout.texts() == [
        "Be kind.", "Find the zebra.",
        *(text for turn in range(5) for text in (f"reply {turn}", f"found {turn}")), "The zebra is here.",
    ]  # fmt: skip
    assert len(rollout.rows) == 13
    assert [row.author for row in rollout.rows[:4]] == ["system", "user", "policy", "tool"]
    assert [row.turn for row in rollout.rows] == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [saw for saw, _, _ in rollout.given] == ["0-1", "0-3", "0-5", "0-7", "0-9", "0-11"]


def test_a_result_knows_its_op_and_its_call() -> None:
    rollout = Rollout()
    calls = (("c1", "search", {"query": "a"}), ("c2", "python", {"code": "b"}))
    rollout.llm([user("q")], said("", *calls))
    rollout.tool("python", {"code": "b"}, "ran b")
    rollout.tool("search", {"query": "a"}, {"found": "a"})
    rollout.llm([user("q"), said("", *calls), result("c1", '{"found":"a"}'), result("c2", "ran b")], said("done"))
    rollout.check()
    assert [(row.tool_name, row.call_id, row.op_id) for row in rollout.rows if row.role == "tool"] == [
        ("python", "c2", 2), ("search", "c1", 3)
    ]  # fmt: skip
    assert rollout.given[-1][0] == "0-1,3,2"
    assert all(row.kind == "message" for row in rollout.rows)


def test_the_call_of_a_result_is_filled_in_when_only_the_prompt_tells_it() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("", ("c1", "search", {"query": "a"})))
    rollout.tool("Toolbox.execute", {"payload": [1]}, "found")
    assert rollout.rows[2].call_id is None
    added = rollout.llm([user("q"), said("", ("c1", "search", {"query": "a"})), result("c1", "found")], said("done"))
    rollout.check()
    assert [(row.seq, row.call_id, row.text) for row in added.rows] == [(2, "c1", None), (3, None, "done")]
    assert added.rows[0].message_id == rollout.rows[2].message_id


def test_two_calls_of_one_tool_are_told_apart_by_their_arguments() -> None:
    rollout = Rollout()
    calls = (("c1", "search", {"query": "a"}), ("c2", "search", {"query": "b"}))
    rollout.llm([user("q")], said("", *calls))
    rollout.tool("search", {"query": "b"}, "found b")
    rollout.tool("search", {"query": "a"}, "found a")
    assert [(row.text, row.call_id) for row in rollout.rows[2:]] == [("found b", "c2"), ("found a", "c1")]


def test_a_result_that_the_prompt_shows_otherwise_has_both_forms() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("", ("c1", "search", {})))
    rollout.tool("search", {}, {"hits": ["zebra"], "took": 2})
    rollout.llm([user("q"), said("", ("c1", "search", {})), result("c1", "1. zebra")], said("done"))
    rollout.check()
    assert [(row.kind, row.text, row.op_id) for row in rollout.rows if row.role == "tool"] == [
        ("message", '{"hits": ["zebra"], "took": 2}', 2), ("variant", "1. zebra", 2)
    ]  # fmt: skip
    assert detail_of(rollout.rows[3]) == {"of": 2, "shown": True}
    assert rollout.rewrites() == []


def test_a_result_in_a_users_message_is_by_the_tool() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("Action: search"))
    rollout.tool("search", {}, "a zebra")
    rollout.llm([user("q"), said("Action: search"), user("Observation: a zebra")], said("done"))
    rollout.check()
    assert [(row.kind, row.author, row.text) for row in rollout.rows[2:4]] == [
        ("message", "tool", "a zebra"), ("variant", "tool", "Observation: a zebra")
    ]  # fmt: skip


def test_what_an_environment_returned_is_by_the_environment() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("go north"))
    rollout.feed("env", {"action": "go north"}, ["You are in a hall.", 0.0, False, {}], name="step")
    rollout.llm([user("q"), said("go north"), user("You are in a hall.\nWhat now?")], said("look"))
    rollout.check()
    assert [(row.author, row.op_id) for row in rollout.rows if row.role == "user"] == [
        ("user", None),
        ("environment", 2),
    ]


def test_a_result_that_no_prompt_shows_is_there_at_once() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("", ("c1", "search", {})))
    added = rollout.tool("search", {}, "found")
    assert [row.text for row in added.rows] == ["found"]


def test_a_tool_that_raised_has_its_error() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("", ("c1", "search", {})))
    (row,) = rollout.tool("search", {}, None, error="ValueError: no").rows
    assert (row.text, row.is_error) == ("ValueError: no", True)


def test_a_tool_around_a_tool_is_told_once() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("", ("c1", "search", {})))
    rollout.tool("search", {}, "found", parent_id=9)
    assert rollout.tool("execute", {}, "found", op_id=9).rows == []


def test_a_model_call_around_a_model_call_is_told_once() -> None:
    rollout = Rollout()
    inner = rollout.llm([user("q")], said("a"), parent_id=8)
    rollout.feed("other", {}, "a", op_id=8, parent_id=9)
    outer = rollout.feed("llm", {"messages": [user("q")]}, "a", op_id=9)
    assert (outer.rows, outer.saw, outer.turn) == ([], inner.saw, inner.turn)


def test_a_helper_model_is_no_part_of_the_transcript() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("a"))
    assert rollout.feed("aux_llm", {"messages": [user("grade it")]}, "good").rows == []


def test_a_retry_after_an_error_repeats_nothing() -> None:
    rollout = Rollout()
    assert rollout.llm([user("q")], None, error="TimeoutError: x").turn == 0
    assert rollout.llm([user("q")], said("a")).turn == 1
    rollout.check()
    assert rollout.texts() == ["q", "a"]


def test_samples_of_one_prompt_go_on_side_by_side() -> None:
    rollout = Rollout()
    for text in ("a", "b", "c"):
        rollout.llm([user("q")], said(text))
    for text in ("b", "a", "c"):
        rollout.llm([user("q"), said(text), user(f"why {text}?")], said(f"because {text}"))
    rollout.check()
    assert rollout.rewrites() == []
    assert rollout.texts() == ["q", "a", "b", "c", "why b?", "because b", "why a?", "because a", "why c?", "because c"]


def test_several_replies_of_one_call_are_rows_and_any_of_them_may_go_on() -> None:
    rollout = Rollout()
    both = {"choices": [{"message": said("a")}, {"message": said("b")}]}
    rollout.llm([user("q")], both)
    rollout.llm([user("q"), said("b"), user("why?")], said("because"))
    rollout.check()
    assert rollout.texts() == ["q", "a", "b", "why?", "because"]
    assert rollout.given[-1][0] == "0,2-3"
    assert rollout.rewrites() == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([system("You plan."), user("Find the zebra.")], [system("You search."), user("Look for stripes.")]),
        ([user("Find the zebra.")], [user("Look for stripes.")]),
        ([system("Work."), user("Find the zebra.")], [system("Work."), user("Look for stripes.")]),
        ([system("You plan."), user("Find the zebra.")], [system("You judge."), user("Find the zebra.")]),
    ],
)
def test_a_sub_agent_is_a_conversation_of_its_own(first: list[Any], second: list[Any]) -> None:
    rollout = Rollout()
    main, sub = first, second
    for turn in range(4):
        for agent, history in (("main", main), ("sub", sub)):
            reply = said(f"{agent} {turn}")
            rollout.llm(history, reply)
            history += [reply, user(f"go on, {agent}")]
    rollout.check()
    assert rollout.rewrites() == []
    assert [text for text in rollout.texts() if text and text.startswith("sub")] == [f"sub {turn}" for turn in range(4)]


def test_parallel_prompts_with_one_beginning_are_no_rewrites() -> None:
    rollout = Rollout()
    head = [system("Be kind."), user("Find the zebra.")]
    for hint in "abc":
        rollout.llm([*head, user(f"hint {hint}")], said(f"found {hint}"), start_ns=1)
    rollout.check()
    assert rollout.rewrites() == []


def test_responses_that_name_the_one_before_go_on_with_it() -> None:
    rollout = Rollout()
    first = {"id": "r1", "object": "response", "output": [{"type": "message", "role": "assistant", "content": "a"}]}
    rollout.feed("llm", {"input": [user("q")]}, first)
    added = rollout.feed("llm", {"input": [user("why?")], "previous_response_id": "r1"}, "because")
    assert added.saw == "0-2"
    assert rollout.texts() == ["q", "a", "why?", "because"]


def test_items_of_responses_are_joined_as_they_grow() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    output = {"object": "response", "output": [thought, call]}
    rollout = Rollout()
    rollout.feed("llm", {"input": [user("q")]}, output)
    rollout.tool("add", {}, "3")
    items = [user("q"), thought, call, {"type": "function_call_output", "call_id": "c1", "output": "3"}]
    assert rollout.feed("llm", {"input": items}, "three").saw == "0-2"
    assert [row.role for row in rollout.rows] == ["user", "assistant", "tool", "assistant"]


def test_prompts_that_are_text_are_told_as_far_as_they_are_new() -> None:
    rollout = Rollout()
    rollout.feed("llm", {"prompt": "q"}, "a1")
    rollout.tool("search", {"x": 1}, {"hits": 2})
    rollout.feed("llm", {"prompt": "q"}, "a2")
    rollout.tool("run", {}, None, error="ValueError: no")
    rollout.feed("other", {"prompt": "ignored"}, "ignored")
    rollout.feed("llm", {"prompt": "q2"}, {"token_ids": [1]})
    assert [(row.role, row.text) for row in rollout.rows] == [
        ("user", "q"), ("assistant", "a1"), ("tool", '{"hits": 2}'), ("assistant", "a2"), ("tool", "ValueError: no"),
        ("user", "q2"),
    ]  # fmt: skip


def tokens(rollout: Rollout, prompt: str | None, reply: str | None, kind: str = "llm", outputs: Any = None) -> Any:
    inputs = {"prompt_ids": [1]}
    return rollout.feed(kind, inputs, outputs or {"token_ids": [2]}, prompt_text=prompt, response_text=reply)


@pytest.mark.parametrize("save", [True, False])
def test_where_there_are_only_tokens_their_text_is_told_what_is_new_of_it(save: bool) -> None:
    rollout = Rollout(save=save)
    for prompt, reply in (("q1", "a1"), ("q1a1 q2", "a2"), ("other", "a3"), ("othera3", "a4")):
        tokens(rollout, prompt, reply)
    assert [(row.role, row.text) for row in rollout.rows] == [
        ("user", "q1"), ("assistant", "a1"), ("user", " q2"), ("assistant", "a2"), ("user", "other"),
        ("assistant", "a3"), ("assistant", "a4"),
    ]  # fmt: skip


def test_text_of_a_chat_template_becomes_its_messages() -> None:
    first = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    reply = "let me see<|im_end|>"
    answer = "\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
    then = "<|im_start|>user\nhurry<|im_end|>\n<|im_start|>assistant\n"
    rollout = Rollout()
    tokens(rollout, first, reply)
    rollout.tool("add", {}, "4")
    assert tokens(rollout, first + reply + answer + then, "four<|im_end|>").saw == "0-4"
    tokens(rollout, first + reply + answer + then + "four<|im_end|>\n" + then, "4!<|im_end|>")
    assert [(row.kind, row.role, row.text) for row in rollout.rows] == [
        ("message", "system", "Be kind."), ("message", "user", "2+2?"), ("message", "assistant", "let me see"),
        ("message", "tool", "4"), ("message", "user", "hurry"), ("message", "assistant", "four"),
        ("message", "user", "hurry"), ("message", "assistant", "4!"),
    ]  # fmt: skip


def test_a_template_that_leaves_out_reasoning_is_a_rewrite() -> None:
    user_turn = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    rollout = Rollout()
    tokens(rollout, user_turn.format("q"), "<think>\nhm\n</think>\n\nyes<|im_end|>")
    tokens(rollout, user_turn.format("q") + "yes<|im_end|>\n" + user_turn.format("sure?"), "sure<|im_end|>")
    assert rollout.rewrites() == [{"reasoning_stripped": [1]}]
    assert [(row.text, row.reasoning) for row in rollout.rows if row.kind == "message"] == [
        ("q", None), ("yes", "hm"), ("sure?", None), ("sure", None)
    ]  # fmt: skip


def test_what_a_tool_said_is_not_told_twice() -> None:
    rollout = Rollout()
    tokens(rollout, "q1", "a1")
    rollout.tool("search", {}, "found")
    tokens(rollout, "q1a1<tool>found", "a2")
    assert rollout.texts() == ["q1", "a1", "found", "a2"]


def test_a_reply_that_has_a_text_of_its_own_keeps_it() -> None:
    rollout = Rollout()
    tokens(rollout, None, "decoded<|im_end|>", outputs={"text": "its own"})
    assert rollout.texts() == ["its own"]


@pytest.mark.parametrize("save", [True, False])
def test_without_a_model_call_the_first_op_with_text_tells_it(save: bool) -> None:
    rollout = Rollout(save=save)
    rollout.feed("other", {}, None)
    tokens(rollout, "q", "a", kind="other")
    tokens(rollout, "again", "again", kind="other")
    assert rollout.rows == []
    assert [row.text for row in rollout.transcript.finish().rows] == ["q", "a"]
    assert rollout.transcript.finish().rows == []


def test_with_a_model_call_other_ops_with_text_tell_nothing() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("a"))
    tokens(rollout, "q", "a", kind="other")
    assert rollout.transcript.finish().rows == []


def test_steps_tell_what_ops_of_tokens_do_not() -> None:
    rollout = Rollout()
    history: list[Any] = [system("Add."), user("2 + 2 + 2?")]
    for turn, word in enumerate(("four", "six")):
        rollout.feed("llm", {"prompt_ids": [turn]}, {"tokens": [turn]})
        added = rollout.transcript.step_taken(history, said(word), time_ns=9)
        rollout.rows += added.rows
        history = [*history, said(word), user("and two more?")]
    assert rollout.texts() == ["Add.", "2 + 2 + 2?", "four", "and two more?", "six"]
    assert [(row.turn, row.op_id) for row in rollout.rows if row.role == "assistant"] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("prompts", "texts"),
    [
        (["Q", "QA and?"], ["Q", "A", " and?", "A"]),
        (["one", "two"], ["one", "A", "two", "A"]),
        ([{"messages": [user("Q")]}, [user("Q")]], ["Q", "A", "A"]),
        ([[1, 2], None], ["A", "A"]),
    ],
)
def test_steps_have_prompts_of_any_form(prompts: list[Any], texts: list[str]) -> None:
    transcript = Transcript()
    rows = [row for prompt in prompts for row in transcript.step_taken(prompt, "A").rows]
    assert [row.text for row in rows] == texts


def test_ops_that_tell_the_conversation_come_before_steps() -> None:
    rollout = Rollout()
    rollout.llm([user("q")], said("from the op"))
    assert rollout.transcript.step_taken("other", "from the step").rows == []


def test_a_transcript_that_is_built_again_has_the_same_ids() -> None:
    first, second = Rollout(), Rollout(raw=False)
    for rollout in (first, second):
        play(rollout, 4, lambda history, turn: history)
        rollout.llm([user("q"), said("ok"), user("ok"), said("ok"), user("ok")], said("ok"))
    assert [row.message_id for row in first.rows] == [row.message_id for row in second.rows]
    lost = Rollout()
    history = play(Rollout(), 4, lambda history, turn: history)
    lost.llm(history, said("The zebra is here."))
    assert [row.message_id for row in lost.rows] == [row.message_id for row in first.rows][: len(lost.rows)]


def test_the_state_is_small() -> None:
    rollout = Rollout()
    play(rollout, 300, lambda history, turn: history)
    assert len(rollout.transcript.save()) < 12_000


@pytest.mark.parametrize(
    "value",
    [None, 3, "", [], {}, {"messages": None}, {"messages": [1]}, [None], {"messages": [{"role": 3}]}, b"x", 1.5],
)
def test_odd_values_make_no_rows(value: Any) -> None:
    for raw in (True, False):
        rollout = Rollout(raw=raw)
        added = rollout.feed("llm", value, value if not isinstance(value, str) else None)
        assert (added.rows, added.saw, added.turn) == ([], None, 0)


def test_a_prompt_of_nothing_but_marks_begins_no_conversation() -> None:
    rollout = Rollout()
    tokens(rollout, "<|im_start|>assistant\n", None)
    rollout.llm([user("Find the zebra in the garden.")], said("a"))
    rollout.check()
    assert rollout.texts() == ["Find the zebra in the garden.", "a"]


def test_bytes_that_are_no_payload_make_no_rows() -> None:
    from msgspec import Raw

    op = EndedOp(op_id=1, kind="llm", inputs=Raw(b"\xdf\xff"), outputs=Raw(b"\xc1"))
    assert Transcript().op_ended(op).rows == []


def test_ranges_keep_the_order_of_the_prompt() -> None:
    assert read_ranges("0-2,5,3-4") == [0, 1, 2, 5, 3, 4]
    assert read_ranges("") == []


def test_a_text_that_is_told_late_belongs_to_the_turn_of_its_call() -> None:
    transcript = Transcript()
    rows = []
    for turn in range(2):
        call = EndedOp(op_id=10 + turn, kind="llm", start_ns=turn, end_ns=turn + 1, inputs={"ids": [1]}, outputs=[2])
        rows += transcript.op_ended(call).rows
        rows += transcript.op_ended(EndedOp(op_id=20 + turn, kind="tool", name="add", outputs=f"found {turn}")).rows
    rows += transcript.finish().rows
    transcript = Transcript(transcript.save())
    rows += transcript.text_told(10, "Find it.", "say 0").rows
    rows += transcript.text_told(11, "Find it.say 0 and?", "say 1").rows
    assert transcript.text_told(10, "again", "again").rows == []
    rows.sort(key=lambda row: (row.turn, row.seq))
    assert [(row.role, row.text, row.op_id) for row in rows if row.kind == "message"] == [
        ("user", "Find it.", None), ("assistant", "say 0", 10), ("tool", "found 0", 20),
        ("user", " and?", None), ("assistant", "say 1", 11), ("tool", "found 1", 21),
    ]  # fmt: skip
