"""An empty answer names the store, and what there is instead of a value that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.errors import UnknownNameWarning
from rolltrace.query import Store
from rolltrace.tables import StoreAddress, TableStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("nothing") / "s"

    @rolltrace.rollout_trace_op(kind="tool", name="search")
    def search(query: str) -> str:
        return query

    for experiment in ("grpo-a", "grpo-b"):
        rolltrace.init("p", experiment, "rolltrace", store=store, drain="off", quiet=True, run=f"run of {experiment}")
        for step in (1, 2, 3):
            for sample in range(12 if step == 1 else 1):
                with rolltrace.rollout_trace_attr(step=step, sample_index=sample, level="hard") as trajectory:
                    search("x")
                    trajectory.reward(0.5)
        rolltrace.shutdown()
    return store


@pytest.fixture(scope="module")
def opened(store: Path) -> Store:
    return rolltrace.open(store)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"experiment": "grpo-c"}, "there is no experiment 'grpo-c'; did you mean 'grpo-"),
        ({"experiment": "ppo"}, "there is no experiment 'ppo'; there are: 'grpo-a', 'grpo-b'"),
        ({"project": "q"}, "there is no project 'q'; there is: 'p'"),
        ({"step": 999}, "there is no step 999; there are 1 to 3"),
        (
            {"sample_index": 99},
            "there is no sample '99'; did you mean '9'? there are: '0', '1', '2', '3', '4', '5', '6', '7', ...",
        ),
        ({"run": "x"}, "there is no run 'x'; there are: 'run of grpo-a', 'run of grpo-b'"),
        ({"where": "status = 'eror'"}, "there is no status 'eror'; did you mean 'error'? there is: 'ok'"),
        ({"where": "status = 'error'"}, "there is no status 'error'; there is: 'ok'"),
        ({"where": "tool = 'serch'"}, "there is no tool 'serch'; did you mean 'search'? there is: 'search'"),
        ({"where": "tag.level = 'easy'"}, "there is no tag.level 'easy'; there is: 'hard'"),
        ({"where": "reward = 7"}, "there is no reward 7; there is only 0.5"),
        ({"where": "step in (7, 8)"}, "there is no step 7; there are 1 to 3; there is no step 8; there are 1 to 3"),
        ({"where": "flag = 'empty'"}, "there is no flag 'empty'; did you mean 'empty_response'? nothing has a flag"),
    ],
)
def test_a_value_that_does_not_exist_is_told_with_what_there_is(
    opened: Store, conditions: dict[str, object], reason: str
) -> None:
    answer = opened.trajectories(**conditions)  # type: ignore[arg-type]
    why = answer.why_empty()
    assert why.startswith(f"no trajectories in the store '{opened.path}' meet the filter; {reason}")
    assert why in repr(answer)


def test_a_tag_that_nothing_has_is_told(opened: Store) -> None:
    with pytest.warns(UnknownNameWarning, match="nothing in the store has the tag 'colour'; there is: 'level'"):
        answer = opened.trajectories(where="tag.colour = 'red'")
    assert answer.why_empty().endswith("there is no tag.colour 'red'; nothing has a tag.colour")


@pytest.mark.parametrize(
    "where", ["reward > 7", "not status = 'ok'", "status != 'ok'", "step = 1 and reward = 0.5 and step = 2"]
)
def test_values_that_exist_but_not_together_are_no_mistake(opened: Store, where: str) -> None:
    answer = opened.trajectories(where=where)
    assert answer.why_empty() == f"no trajectories in the store '{opened.path}' meet the filter"


def test_an_answer_with_rows_explains_nothing(opened: Store) -> None:
    assert opened.trajectories(step=1).why_empty() == ""


def test_paging_is_blamed_for_what_it_leaves_out(opened: Store) -> None:
    answer = opened.trajectories(limit=10, offset=1000)
    assert answer.why_empty() == f"no rows of the store '{opened.path}' with limit 10 and offset 1000"


def test_an_empty_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TableStore(StoreAddress.parse(tmp_path)).prepare()
    for command in (["ls"], ["ls", "--experiments"], ["ls", "--steps"], ["groups"]):
        assert main([*command, "--store", str(tmp_path)]) == 0
        assert f"in the store '{tmp_path}'\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["ls", "--experiment", "ppo"],
        ["ls", "--experiment", "ppo", "--json"],
        ["ls", "--steps", "--experiment", "ppo"],
        ["groups", "--experiment", "ppo"],
        ["groups", "--experiment", "ppo", "--json"],
        ["live", "--finished", "--once", "--experiment", "ppo"],
        ["diff", "--step", "1", "--sample", "1", "--experiment", "ppo"],
        ["export", "jsonl", "--experiment", "ppo"],
        ["sync", "--to", "otlp", "--experiment", "ppo", "--dry-run"],
    ],
)
def test_commands_say_so(store: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main([*command, "--store", str(store)]) == 1
    out, err = capsys.readouterr()
    line = "meet the filter; there is no experiment 'ppo'; there are: 'grpo-a', 'grpo-b'"
    assert line in err
    assert str(store) in err
    assert out == ""
