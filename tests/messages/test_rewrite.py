"""Harnesses that rewrite history take nothing out of the transcript."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltrace.messages.placing import align
from tests.messages.rollout import Rollout, detail_of, play, result, said, system, user
from tests.nightly import nightly

TURNS = 6
PRODUCED = [f"reply {turn}" for turn in range(TURNS)] + ["The zebra is here."]


def check(rollout: Rollout) -> None:
    """Every reply is there, in order, and each result; each prompt can be put together again."""
    rollout.check()
    assert [row.text for row in rollout.rows if row.kind == "message" and row.role == "assistant"] == PRODUCED
    results = [row.text for row in rollout.rows if row.kind == "message" and row.role == "tool"]
    assert results == [f"found {turn}" for turn in range(TURNS)]


@pytest.fixture(params=[(True, False), (True, True), (False, False)], ids=["raw", "saved", "decoded"])
def rollout(request: pytest.FixtureRequest) -> Rollout:
    raw, save = request.param
    return Rollout(raw=raw, save=save)


def without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "reasoning_content"}


def test_a_harness_that_strips_reasoning(rollout: Rollout) -> None:
    play(rollout, TURNS, lambda history, turn: [without_reasoning(each) for each in history], thought="hm")
    check(rollout)
    replies = [row for row in rollout.rows if row.role == "assistant"]
    assert [row.reasoning for row in replies] == [*(f"hm {turn}" for turn in range(TURNS)), None]
    assert rollout.rewrites() == [{"reasoning_stripped": [row.seq]} for row in replies[:-1]]
    assert rollout.texts("variant") == []


def test_a_harness_that_keeps_the_last_reasoning_only(rollout: Rollout) -> None:
    def view(history: list[Any], turn: int) -> list[Any]:
        return [*map(without_reasoning, history[:-2]), *history[-2:]]

    play(rollout, TURNS, view, thought="hm")
    check(rollout)
    replies = [row.seq for row in rollout.rows if row.role == "assistant"]
    assert [each["reasoning_stripped"] for each in rollout.rewrites()] == [[seq] for seq in replies[: TURNS - 1]]


def test_a_harness_that_compacts_into_a_summary(rollout: Rollout) -> None:
    def view(history: list[Any], turn: int) -> list[Any]:
        return history if turn < 4 else [*history[:2], user("So far: replies 0 to 2."), *history[8:]]

    play(rollout, TURNS, view)
    check(rollout)
    (rewrite,) = rollout.rewrites()
    texts = {row.seq: row.text for row in rollout.rows}
    assert [texts[seq] for seq in rewrite["dropped"]] == [
        text for turn in range(3) for text in (f"reply {turn}", f"found {turn}")
    ]
    assert [texts[seq] for seq in rewrite["added"]] == ["So far: replies 0 to 2."]
    assert rewrite.keys() == {"dropped", "added"}


def test_a_harness_that_keeps_nothing_but_the_task_and_a_summary(rollout: Rollout) -> None:
    rollout.llm([system("s"), user("Find the zebra.")], said("reply 0"))
    rollout.llm([system("s"), user("Find the zebra."), said("reply 0"), user("and?")], said("reply 1"))
    rollout.llm([system("s"), user("Find the zebra."), user("It is not in the house.")], said("reply 2"))
    rollout.check()
    assert rollout.rewrites() == [{"dropped": [2, 3, 4], "added": [5]}]


@pytest.mark.parametrize("quoted", ["The zebra hides: it went to the river.", "Find the zebra in the garden."])
def test_a_harness_that_begins_anew_with_a_summary(rollout: Rollout, quoted: str) -> None:
    task = [system("s"), user("Find the zebra in the garden.")]
    rollout.llm(task, said("reply 0"))
    rollout.llm([*task, said("reply 0"), user("Sum up.")], said("The zebra hides: it went to the river."))
    anew = [system("s"), user(f"You go on. Known so far: {quoted}")]
    rollout.llm(anew, said("reply 2"))
    rollout.llm([*anew, said("reply 2"), user("and?")], said("reply 3"))
    rollout.check()
    (rewrite,) = rollout.rewrites()
    assert rewrite == {"dropped": [1, 2, 3, 4], "added": [5]}


def test_a_harness_that_elides_old_results(rollout: Rollout) -> None:
    def view(history: list[Any], turn: int) -> list[Any]:
        old = [
            {**each, "content": f"[elided {each['tool_call_id']}]"} if each["role"] == "tool" else each
            for each in history[:-2]
        ]
        return [*old, *history[-2:]]

    play(rollout, TURNS, view)
    check(rollout)
    assert rollout.texts("variant") == [f"[elided c{turn}]" for turn in range(TURNS - 1)]
    seqs = [row.seq for row in rollout.rows if row.kind == "message" and row.role == "tool"]
    variants = [row for row in rollout.rows if row.kind == "variant"]
    assert [detail_of(row) for row in variants] == [{"of": seq} for seq in seqs[:-1]]
    assert rollout.rewrites() == [{"changed": [[seq, row.seq]]} for seq, row in zip(seqs, variants)]


def test_a_harness_that_elides_many_results_at_once(rollout: Rollout) -> None:
    def view(history: list[Any], turn: int) -> list[Any]:
        if turn < 5:
            return history
        old = [{**each, "content": "[elided]"} if each["role"] == "tool" else each for each in history[:-2]]
        return [*old, *history[-2:]]

    play(rollout, TURNS, view)
    check(rollout)
    assert [len(each["changed"]) for each in rollout.rewrites()] == [4, 1]
    assert len({row.message_id for row in rollout.rows}) == len(rollout.rows)


def test_a_harness_with_a_sliding_window(rollout: Rollout) -> None:
    play(rollout, TURNS, lambda history, turn: [history[0], *history[1:][-4:]])
    check(rollout)
    dropped = [seq for each in rollout.rewrites() for seq in each["dropped"]]
    assert dropped == sorted(set(dropped))
    assert all(each.keys() == {"dropped"} for each in rollout.rewrites())
    assert rollout.texts("variant") == []


def test_a_system_prompt_that_changes_each_turn(rollout: Rollout) -> None:
    play(rollout, TURNS, lambda history, turn: [system(f"It is {turn} o'clock."), *history[1:]])
    check(rollout)
    assert rollout.texts("variant") == [f"It is {turn} o'clock." for turn in range(1, TURNS + 1)]
    assert all(each.keys() == {"changed"} for each in rollout.rewrites())
    assert len(rollout.rewrites()) == TURNS


def test_a_reply_that_the_harness_stores_otherwise(rollout: Rollout) -> None:
    history = [user("q")]
    for turn in range(3):
        rollout.llm(history, said(f"well, {turn}. And so on"))
        history = [*history, said(f"well, {turn}."), user(f"more {turn}")]
    rollout.check()
    assert rollout.texts() == [
        "q", "well, 0. And so on", "more 0", "well, 1. And so on", "more 1", "well, 2. And so on"
    ]  # fmt: skip
    assert rollout.texts("variant") == ["well, 0.", "well, 1."]


def test_a_reply_that_was_thrown_away(rollout: Rollout) -> None:
    rollout.llm([user("q")], said("not JSON"))
    rollout.llm([user("q"), user("Answer in JSON.")], said("{}"))
    rollout.check()
    assert rollout.texts() == ["q", "not JSON", "Answer in JSON.", "{}"]
    assert rollout.rewrites() == [{"dropped": [1], "added": [2]}]


def test_a_message_that_comes_back_is_the_same_row(rollout: Rollout) -> None:
    whole = [system("s"), user("q"), said("a"), user("b"), said("c"), user("d")]
    rollout.llm(whole[:2], whole[2])
    rollout.llm(whole[:4], whole[4])
    rollout.llm([whole[0], *whole[3:]], said("e"))
    rollout.llm([*whole, said("e"), user("f")], said("g"))
    rollout.check()
    assert rollout.texts() == ["s", "q", "a", "b", "c", "d", "e", "f", "g"]
    assert rollout.texts("variant") == []


def test_the_rewrite_says_how_many_tokens_it_saved() -> None:
    rollout = Rollout()
    task = [user("Find the zebra.")]
    rollout.llm(task, said("a"), prompt_tokens=10, response_tokens=5)
    rollout.llm([*task, said("a"), user("b")], said("c"), prompt_tokens=20, response_tokens=5)
    rollout.llm([*task, user("Sum.")], said("d"), prompt_tokens=12, response_tokens=1)
    assert rollout.rewrites()[-1]["tokens"] == {"before": 25, "after": 12}


TEXT = st.sampled_from(["a", "b", "c", "ok", "go on"])
VIEWS = [
    "all", "window", "summary", "elide", "strip", "system", "edit", "drop one", "repeat", "branch", "swap",
    "other agent",
]  # fmt: skip
Turn = tuple[str, str, str, int, bool]
"""What the model says, what comes back, what the harness does to the history, where, and whether a tool is called."""
TURN: st.SearchStrategy[Turn] = st.tuples(TEXT, TEXT, st.sampled_from(VIEWS), st.integers(0, 10), st.booleans())


@settings(max_examples=nightly(2000, 60), deadline=None)
@given(st.lists(TURN, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_no_rewriting_loses_a_reply_or_a_prompt(turns: list[Turn], raw: bool, save: bool) -> None:
    rollout = Rollout(raw=raw, save=save)
    history: list[dict[str, Any]] = [system("s"), user("q")]
    for number, (text, answer, view, place, has_tool) in enumerate(turns):
        prompt = rewritten(history, view, place, number)
        calls = [(f"c{number}", "search", {"query": text})] if has_tool else []
        reply = said(text, *calls, thought="hm" if place % 2 else None)
        rollout.llm(prompt, reply)
        if has_tool:
            rollout.tool("search", {"query": text}, answer)
        more = result(f"c{number}", answer) if has_tool else user(answer)
        kept = prompt if place % 3 else history
        history = [*kept, reply, more]
    rollout.check()


def rewritten(history: list[dict[str, Any]], view: str, place: int, number: int) -> list[dict[str, Any]]:
    at = place % len(history)
    match view:
        case "window":
            return [history[0], *history[1:][-4:]]
        case "summary":
            return [*history[:2], user(f"summary {number}"), *history[max(2, at) :]]
        case "elide":
            return [{**each, "content": "[elided]"} if each["role"] == "tool" else each for each in history]
        case "strip":
            return [without_reasoning(each) for each in history]
        case "system":
            return [system(f"s{number}"), *history[1:]]
        case "edit":
            return [*history[:at], {**history[at], "content": f"edited {number}"}, *history[at + 1 :]]
        case "drop one":
            return [*history[:at], *history[at + 1 :]] or history
        case "repeat":
            return [*history, history[at]]
        case "branch":
            return history[: at + 1]
        case "swap":
            return [*history[:at], *reversed(history[at:])]
        case "other agent":
            return [system("other"), user(f"task {number}")]
    return history


@given(st.lists(st.integers(0, 3), max_size=7), st.lists(st.integers(0, 3), max_size=7))
def test_the_longest_common_part_is_found(old: list[int], new: list[int]) -> None:
    pairs = align(old, new)
    assert all(old[at] == new[place] for at, place in pairs)
    assert pairs == sorted(pairs)
    assert all(a < b and c < d for (a, c), (b, d) in pairwise(pairs))
    assert len(pairs) == longest_common(tuple(old), tuple(new))


def longest_common(old: tuple[int, ...], new: tuple[int, ...]) -> int:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, a in enumerate(old):
        for j, b in enumerate(new):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if a == b else max(lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]
