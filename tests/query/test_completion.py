"""What could stand at the cursor of a filter."""

from __future__ import annotations

import pytest

from rolltrace.query import Scope, Store, compile_where, complete_filter

MATHS = Scope(project="maths", experiment="grpo-7b")


def texts(store: Store, text: str, cursor: int | None = None) -> list[str]:
    return [option.text for option in complete_filter(store, text, cursor, MATHS).options]


@pytest.mark.parametrize("text", ["", "  ", "(", "not ", "reward < 1 and ", "reward < 1 or (", "not ("])
def test_a_field_comes_first(demo: Store, text: str) -> None:
    assert {"reward", "status", "flag", "tag.", "group.std"} <= set(texts(demo, text))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rew", ["reward"]),
        ("stat", ["status"]),
        ("tag.dif", ["tag.difficulty"]),
        ("score.adv", ["score.advantage"]),
        ("validate = ", ["true", "false"]),
        ("fate = 'f", ["'filtered'"]),
        ("fate in ('trained', 'f", ["'filtered'"]),
        ("tag.difficulty = 'h", ["'hard'"]),
        ("kind = 'rew", ["'reward'"]),
        ("reward = 1 a", ["and"]),
        ("reward is null ", ["and", "or"]),
        ("text ~ ", []),
        ("reward = ", []),
        ("nonsense = ", ["and", "or"]),
    ],
)
def test_only_what_fits_is_offered(demo: Store, text: str, options: list[str]) -> None:
    assert texts(demo, text) == options


def test_values_are_those_that_exist_the_most_frequent_first(demo: Store) -> None:
    found = complete_filter(demo, "tool = ", None, MATHS).options
    assert {"'search'", "'python'", "'book'"} <= {option.text for option in found}
    counts = [option.count or 0 for option in found]
    assert counts == sorted(counts, reverse=True)


def test_every_value_that_is_offered_can_be_written_so(demo: Store) -> None:
    for field in ("status", "tool", "flag", "name", "sample_index", "tag.note", "fate_reason", "run", "error"):
        for option in complete_filter(demo, f"{field} = ", None, Scope()).options:
            compile_where(f"{field} = {option.text}")


def test_the_word_at_the_cursor_is_replaced_and_the_rest_stays(demo: Store) -> None:
    text = "reward < 0.5 and sta = 'ok'"
    found = complete_filter(demo, text, text.index(" ="), MATHS)
    assert text[found.start : found.end] == "sta"
    assert "status" in [option.text for option in found.options]


@pytest.mark.parametrize("text", ["reward == ", "‘curly’ ", "$$$", "reward < 0.5 && x"])
def test_a_filter_that_cannot_be_read_offers_nothing(demo: Store, text: str) -> None:
    assert texts(demo, text) == []
