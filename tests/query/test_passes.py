"""What pass means: a threshold on the reward or a term, stored with the experiment, the same in every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.errors import ConfigError
from rolltrace.query import QueryError, Scope, Store, curves_of, facets_of, group_page, open_store, step_series
from tests.draining import drain

from .conftest import start

Terms = dict[str, Any] | None
ROLLOUTS: list[tuple[float | None, Terms]] = [
    (1.2, {"correct": 1.0, "bonus": 0.2}),
    (0.9, {"correct": 0.0, "bonus": 0.9}),
    (0.3, {"correct": 0.0, "bonus": 0.3}),
    (0.5, None),
    (None, None),
]
"""By the term `correct` one of the four that have a reward has passed, by `reward > 0` all of them."""


def write(path: Path, rollouts: list[tuple[float | None, Terms]] = ROLLOUTS, **settings: Any) -> None:
    start(path, **settings)
    for step in (1, 2):
        for n, (reward, terms) in enumerate(rollouts):
            with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n) as trajectory:
                pass
            if reward is not None:
                rolltrace.score(trajectory, "reward", reward, terms=terms)
    rolltrace.shutdown()


@pytest.fixture(params=[False, True], ids=["undrained", "drained"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(tmp_path / "store")
    if request.param:
        drain(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Store:
    return open_store(path)


def figures(store: Store, **asked: Any) -> dict[str, Any]:
    """The pass rate of step 2 as each kind of answer has it."""
    (group,) = store.groups(step=2, k=1, **asked).rows()
    (_, step) = store.steps(**asked).rows()
    (curve,) = curves_of(store, ["pass"], **asked).curves
    (page,) = group_page(store, Scope(project="p", experiment="e", step=2, **asked)).rows
    series = step_series(store, project="p", experiment="e", **asked)
    several = step_series(store, project="p", experiment="e", all_runs=True, **asked)
    rates = {
        "group": group["pass_rate"], "pass@1": group["pass@1"], "page": page["pass_rate"], "step": step["pass_rate"],
        "curve": curve.points[-1].mean, "series": series.training["pass_rate"][-1],
        "series of all runs": several.training["pass_rate"][-1],
    }  # fmt: skip
    assert len(set(rates.values())) == 1, rates
    assert {group["pass_rule"], step["pass_rule"], page["pass_rule"]} == {group["pass_rule"]}
    return {"rate": group["pass_rate"], "passed": group["passed"], "rule": group["pass_rule"]}


@pytest.mark.parametrize(
    ("asked", "passed", "rule"),
    [
        ({}, 4, "reward > 0"),
        ({"threshold": 0.9}, 2, "reward >= 0.9"),
        ({"term": "correct"}, 1, "correct >= 1"),
        ({"term": "bonus", "threshold": 0.3}, 2, "bonus >= 0.3"),
    ],
)
def test_a_question_may_say_what_pass_means(store: Store, asked: dict[str, Any], passed: int, rule: str) -> None:
    assert figures(store, **asked) == {"rate": passed / 4, "passed": passed, "rule": rule}


def test_a_choice_is_stored_and_counts_in_every_answer(store: Store, path: Path) -> None:
    (meaning,) = store.set_pass(term="correct", experiment="e")
    assert (meaning.text, meaning.title) == ("pass: correct >= 1", "pass")
    for reader in (store, open_store(path)):
        assert figures(reader) == {"rate": 0.25, "passed": 1, "rule": "correct >= 1"}
        assert figures(reader, threshold=0.5)["passed"] == 3
    rows = store.sql("SELECT passed, pass_rule, count(*) AS n FROM passes GROUP BY ALL ORDER BY n, passed").rows()
    assert [(row["passed"], row["pass_rule"], row["n"]) for row in rows] == [
        (True, "correct >= 1", 2), (None, "correct >= 1", 2), (False, "correct >= 1", 6)
    ]  # fmt: skip
    assert [row["passed"] for row in store.sql("SELECT passed FROM groups ORDER BY step")] == [1, 1]
    assert [row["pass_rate"] for row in store.history(7)] == [0.25, 0.25]


def test_a_filter_finds_what_passed(store: Store) -> None:
    assert len(store.trajectories(where="passed = true")) == 8
    store.set_pass(term="correct")
    assert [row["reward"] for row in store.trajectories(where="passed = true")] == [1.2, 1.2]
    assert len(store.trajectories(where="passed = false")) == 6
    assert len(store.trajectories(where="passed is null")) == 2
    assert len(store.trajectories(where="passed = true and group.pass_rate = 0.25 and term.correct = 1")) == 2
    assert len(store.groups(where="passed = true and group.pass_rate = 0.75", threshold=0.5)) == 2


def test_facets_count_what_passed(store: Store) -> None:
    def counts(**asked: Any) -> dict[str, int]:
        (facet,) = [each for each in facets_of(store, Scope(step=1, **asked)).facets if each.field == "passed"]
        assert {each.where for each in facet.values} <= {"passed = true", "passed = false"}
        return {each.value: each.count for each in facet.values}

    assert counts() == {"true": 4}
    assert counts(threshold=0.9) == {"true": 2, "false": 2}
    store.set_pass(term="correct")
    assert counts() == {"true": 1, "false": 3}


def test_taking_the_choice_back_leaves_rewards_above_0(store: Store) -> None:
    store.set_pass(threshold=0.9)
    (meaning,) = store.set_pass()
    assert (meaning.text, meaning.title) == ("reward > 0", "reward > 0")
    assert figures(store)["rule"] == "reward > 0"


def test_experiments_have_rules_of_their_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path, experiment_name=name)
    store = open_store(tmp_path)
    store.set_pass(term="correct", experiment="two")
    assert {row["experiment"]: row["passed"] for row in store.groups(step=1)} == {"one": 4, "two": 1}
    assert {row["experiment"]: row["pass_rate"] for row in store.steps()} == {"one": 1.0, "two": 0.25}
    assert {each.experiment: each.text for each in store.pass_meanings()} == {
        "one": "reward > 0", "two": "pass: correct >= 1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rewards", "text", "title"),
    [
        ([0.0, 1.0, 1.0], "pass: reward = 1", "pass"),
        ([0.0, 0.0], "pass: reward = 1", "pass"),
        ([0.5, 0.5], "reward > 0", "reward > 0"),
        ([-1.0, 1.0], "reward > 0", "reward > 0"),
        ([0.0, 2.0], "reward > 0", "reward > 0"),
        ([1.0, float("nan")], "reward > 0", "reward > 0"),
        ([None], "reward > 0", "reward > 0"),
    ],
)
def test_only_rewards_of_0_and_1_are_called_pass_without_a_choice(
    tmp_path: Path, rewards: list[float | None], text: str, title: str
) -> None:
    write(tmp_path, [(reward, None) for reward in rewards])
    (meaning,) = open_store(tmp_path).pass_meanings()
    assert (meaning.text, meaning.title) == (text, title)


def test_a_term_of_true_and_false_can_be_what_passes(tmp_path: Path) -> None:
    write(tmp_path, [(0.2, {"ok": True}), (0.9, {"ok": False}), (float("nan"), {"ok": float("nan")})])
    assert [row["passed"] for row in open_store(tmp_path).groups(term="ok")] == [1, 1]
    assert [row["passed"] for row in open_store(tmp_path).groups(threshold=0.1)] == [2, 2]


@pytest.mark.parametrize("name", ["a 'quoted' term", "a/b~c", "reward", "结果", "{x}"])
def test_a_term_may_have_any_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, [(1.0, {name: 0.7}), (1.0, {name: 0.2})], project_name="p'{0}", experiment_name="e;--")
    store = open_store(tmp_path)
    store.set_pass(term=name, threshold=0.5)
    assert [row["passed"] for row in store.groups()] == [1, 1]
    assert [row["pass_rate"] for row in store.steps()] == [0.5, 0.5]
    shown = "term.reward" if name == "reward" else name
    assert store.groups().rows()[0]["pass_rule"] == f"{shown} >= 0.5"


def test_a_term_that_no_reward_has_is_an_error_with_the_nearest_name(store: Store) -> None:
    message = r"no reward.* has the term 'corect'; did you mean 'correct'\? there are: bonus, correct"
    for ask in (
        store.groups, store.steps, store.set_pass, store.pass_meanings,
        lambda term: curves_of(store, ["pass"], term=term),
        lambda term: group_page(store, Scope(project="p", experiment="e", term=term)),
        lambda term: step_series(store, project="p", experiment="e", term=term),
    ):  # fmt: skip
        with pytest.raises(QueryError, match=message):
            ask(term="corect")
    assert store.pass_meanings()[0].text == "reward > 0"


@pytest.mark.parametrize("threshold", ["0.5", True, float("nan"), float("inf"), [1]])
def test_a_threshold_is_a_finite_number(store: Store, threshold: Any) -> None:
    with pytest.raises(QueryError, match="threshold must be a finite number, not"):
        store.groups(threshold=threshold)


def test_a_stored_term_that_no_reward_has_judges_nothing_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, limits={"pass_term": "corect"})
    store = open_store(tmp_path)
    assert [(row["passed"], row["pass_rate"]) for row in store.groups()] == [(None, None)] * 2
    assert [row["pass_rate"] for row in store.steps()] == [None, None]
    (meaning,) = store.pass_meanings()
    assert meaning.problem is not None
    assert "no reward of p / e has the term 'corect'; did you mean 'correct'?" in meaning.problem


def test_init_says_what_pass_means(tmp_path: Path) -> None:
    write(tmp_path, limits={"pass_term": "bonus", "pass_threshold": 0.25})
    assert figures(open_store(tmp_path)) == {"rate": 0.5, "passed": 2, "rule": "bonus >= 0.25"}


def test_the_environment_says_what_pass_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_PASS_THRESHOLD", "0.9")
    write(tmp_path)
    assert figures(open_store(tmp_path)) == {"rate": 0.5, "passed": 2, "rule": "reward >= 0.9"}


def test_a_config_says_what_pass_means(tmp_path: Path) -> None:
    trace = {"backend": "rolltrace", "store": str(tmp_path), "drain": "off", "pass_term": "correct"}
    rolltrace.init({"actor_rollout_ref": {"rollout": {"trace": trace}}, "trainer": {"experiment_name": "e"}})
    with rolltrace.rollout_trace_attr(7, step=1, rollout_n=0) as trajectory:
        pass
    rolltrace.score(trajectory, "reward", 0.4, terms={"correct": 0})
    rolltrace.shutdown()
    assert [row["pass_rule"] for row in open_store(tmp_path).groups()] == ["correct >= 1"]


def test_one_run_chooses_once_and_the_next_run_again(tmp_path: Path) -> None:
    write(tmp_path, run="first", limits={"pass_threshold": 0.9})
    store = open_store(tmp_path)
    store.set_pass(term="correct")
    write(tmp_path, run="first", limits={"pass_threshold": 0.9})  # a worker that starts late
    assert open_store(tmp_path).pass_meanings()[0].rule.text == "correct >= 1"
    write(tmp_path, run="second", limits={"pass_threshold": 0.9})
    assert open_store(tmp_path).pass_meanings()[0].rule.text == "reward >= 0.9"
    write(tmp_path, run="third")
    assert open_store(tmp_path).pass_meanings()[0].rule.text == "reward >= 0.9"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"pass_threshold": "much"}, "pass_threshold must be a finite number, not 'much'"),
        ({"pass_threshold": "nan"}, "pass_threshold must be a finite number, not 'nan'"),
        ({"pass_term": ""}, "pass_term must be a non-empty string, not ''"),
    ],
)
def test_a_wrong_setting_is_told_at_once(tmp_path: Path, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(tmp_path, limits=setting)


def test_a_file_that_cannot_be_read_is_no_choice(store: Store, path: Path) -> None:
    store.set_pass(term="correct")
    (file,) = (path / "pass").glob("*.json")
    for content in (b"{", b"[]", json.dumps({"project": "p", "experiment": "e", "threshold": "x"}).encode(), b"\xff"):
        file.write_bytes(content)
        assert open_store(path).pass_meanings()[0].text == "reward > 0"


def test_an_experiment_that_is_not_there_cannot_be_given_a_meaning(store: Store) -> None:
    with pytest.raises(QueryError, match="'f'"):
        store.set_pass(threshold=1, experiment="f")
