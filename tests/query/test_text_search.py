"""Text is found in what was said: each message once, with totals for each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.errors import QueryError
from rolltrace.query import Scope, Store, search_text
from rolltrace.query.model.lists import SearchStep
from tests.draining import compact, drain

from .conftest import start


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, Any]], reply: dict[str, Any]) -> dict[str, Any]:
    return reply


@rolltrace.rollout_trace_op(kind="tool")
def look_up(animal: str) -> str:
    return f"{animal}: black and white"


def write(store: Path) -> None:
    """Two steps of three rollouts: the zebra is in the task of each, and in one reply of the first rollouts."""
    start(store)
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "say \\"Hoof\\""}'}}
    for step in (1, 2):
        for n in range(3):
            with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n):
                history: list[dict[str, Any]] = [{"role": "user", "content": "Find the Zebra."}]
                for turn in range(4):
                    text = "A zebra!" if turn == 1 and n == 0 else f"No. {turn}"
                    reply: dict[str, Any] = {
                        "role": "assistant",
                        "content": text,
                        "reasoning_content": "Perhaps Africa?",
                    }
                    reply = {**reply, "tool_calls": [call]} if turn == 2 and n == 1 else reply
                    generate(history, reply)
                    history = [*history, reply, {"role": "user", "content": f"Go on, {turn}."}]
                if n == 2:
                    look_up("panda")
    rolltrace.shutdown()
    drain(store)


@pytest.fixture(scope="module", params=["moving", "settled"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("search") / "s"
    write(path)
    if request.param == "settled":
        compact(path)
    return rolltrace.open(path)


def test_each_message_is_found_once_however_many_prompts_repeat_it(store: Store) -> None:
    found = search_text(store, "ZEBRA")
    assert found.total == 6
    assert [(hit.row.step, hit.row.rollout_n, hit.ops) for hit in found.hits] == [
        (2, 0, 2), (2, 1, 1), (2, 2, 1), (1, 0, 2), (1, 1, 1), (1, 2, 1)
    ]  # fmt: skip
    task, reply = found.hits[0].matches
    assert (task.op_id, task.op_name, task.turn, task.where) == (None, "user", 0, "text")
    assert (task.before, task.match, task.after, task.offset) == ("Find the ", "Zebra", ".", 9)
    assert (reply.op_name, reply.turn, reply.match) == ("generate", 1, "zebra")


def test_steps_have_totals_of_all_pages(store: Store) -> None:
    first = search_text(store, "zebra", limit=4)
    rest = search_text(store, "zebra", limit=4, after=first.next)
    totals = [SearchStep(project="p", experiment="e", step=step, trajectories=3, hits=4) for step in (2, 1)]
    assert first.steps == rest.steps == totals
    assert (len(first.hits), len(rest.hits), rest.next) == (4, 2, None)
    ids = [hit.row.trajectory_id for page in (first, rest) for hit in page.hits]
    assert len(set(ids)) == 6


def test_scope_and_filter_narrow_it_down(store: Store) -> None:
    found = search_text(store, "zebra", Scope(step=1, where="rollout_n > 0"))
    assert [hit.row.rollout_n for hit in found.hits] == [1, 2]
    assert [(step.step, step.hits) for step in found.steps] == [(1, 2)]


@pytest.mark.parametrize(
    ("text", "where", "rollouts"),
    [
        ("perhaps africa", "reasoning", [0, 1, 2]),
        ('say "hoof"', "call", [1]),
        ("look_up", "call", [1]),
        ("panda: black", "text", [2]),
    ],
)
def test_reasoning_calls_and_results_are_searched(store: Store, text: str, where: str, rollouts: list[int]) -> None:
    hits = search_text(store, text, Scope(step=1)).hits
    assert [hit.row.rollout_n for hit in hits] == rollouts
    (first, *_) = hits[0].matches
    assert (first.where, first.match.lower()) == (where, text.lower())


def test_few_places_of_a_trajectory_are_shown_and_all_are_counted(store: Store) -> None:
    (hit, *_) = search_text(store, "o", Scope(step=1)).hits
    assert len(hit.matches) == 5
    assert hit.ops > 5


def test_what_nobody_said_is_not_found(store: Store) -> None:
    found = search_text(store, "a.b%_[\\")
    assert (found.hits, found.steps, found.total, found.next) == ([], [], 0, None)


@pytest.mark.parametrize("text", ["", "  ", "x" * 501])
def test_a_text_that_cannot_be_searched_for(store: Store, text: str) -> None:
    with pytest.raises(QueryError, match="1 to 500 characters"):
        search_text(store, text)
