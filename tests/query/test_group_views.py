"""Groups: their statistics, against plain Python."""

from __future__ import annotations

import math
import shutil
import statistics
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rolltrace
from rolltrace.pass_rule import PassRule
from rolltrace.query import FilterError, QueryError, Store, open_store
from rolltrace.query.views import GROUP_COLUMNS, judged_select, pass_at, pass_views
from tests.draining import drain
from tests.nightly import nightly

from .conftest import agent, start

NAN, INF = math.nan, math.inf
LISTING = """
    CREATE TABLE _listing (
        trajectory_id VARCHAR, project VARCHAR, experiment VARCHAR, step BIGINT, sample_index VARCHAR, rollout_n BIGINT,
        validate BOOLEAN, status VARCHAR, start_ns BIGINT, duration_s DOUBLE, turns BIGINT, response_tokens BIGINT,
        reward DOUBLE, flags VARCHAR[], _is_int BOOLEAN, run VARCHAR, superseded BOOLEAN,
        branch BOOLEAN, terms MAP(VARCHAR, DOUBLE));
"""
REWARDS = st.lists(st.none() | st.sampled_from([0.0, 1.0, -1.0, NAN, INF, -INF]) | st.floats(-1e6, 1e6), max_size=9)


@pytest.fixture(scope="module")
def database() -> Any:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(LISTING)
    yield connection
    connection.close()


def group(
    database: duckdb.DuckDBPyConnection, rewards: list[float | None], threshold: float | None = None
) -> dict[str, Any]:
    database.execute("DELETE FROM _listing")
    database.executemany(
        "INSERT INTO _listing VALUES (?, 'p', 'e', 1, '3', ?, false, 'ok', ?, 1, 2, ?, ?, [], true, 'r', false, false, "
        "NULL)",
        [[str(at), at, at, 10 * at, reward] for at, reward in enumerate(rewards)],
    )
    judged = judged_select({}, PassRule.of(threshold=threshold))
    groups = f"WITH _judged AS ({judged}) SELECT {', '.join(GROUP_COLUMNS)} FROM ({pass_views({})['_groups']})"
    found = database.execute(groups)
    names = [column[0] for column in found.description or ()]
    ((*values,),) = found.fetchall()
    return dict(zip(names, values))


@settings(max_examples=nightly(1000, 30), deadline=None)
@given(rewards=REWARDS.filter(bool), threshold=st.sampled_from([None, 0.0, 0.5, -1.0]))
@example(rewards=[None, None], threshold=0.0)
@example(rewards=[NAN, NAN], threshold=0.0)
@example(rewards=[INF, -INF], threshold=None)
def test_the_statistics_are_those_of_plain_python(
    database: duckdb.DuckDBPyConnection, rewards: list[float | None], threshold: float | None
) -> None:
    found = group(database, rewards, threshold)
    scored = [reward for reward in rewards if reward is not None]
    finite = [reward for reward in scored if math.isfinite(reward)]
    ranked = {at: reward for at, reward in enumerate(rewards) if reward is not None and not math.isnan(reward)}
    passed = sum(reward > 0 if threshold is None else reward >= threshold for reward in scored)
    assert (found["size"], found["scored"], found["passed"]) == (len(rewards), len(scored), passed)
    assert found["pass_rate"] == (passed / len(scored) if scored else None)
    assert found["std"] == (pytest.approx(statistics.pstdev(finite), abs=1e-6) if finite else None)
    assert found["zero_variance"] is (len(scored) > 1 and len(finite) == len(scored) and len(set(finite)) == 1)
    assert found["best"] == (str(max(ranked, key=lambda at: ranked[at])) if ranked else None)
    assert found["worst"] == (str(min(ranked, key=lambda at: ranked[at])) if ranked else None)
    if scored and len(finite) == len(scored):
        assert found["mean"] == pytest.approx(statistics.fmean(scored), abs=1e-6)
        assert (found["min"], found["max"], found["spread"]) == (min(scored), max(scored), max(scored) - min(scored))
    lengths = [10 * at for at in range(len(rewards))]
    assert (found["response_tokens_min"], found["response_tokens_max"]) == (lengths[0], lengths[-1])
    assert found["response_tokens_mean"] == statistics.fmean(lengths)


@pytest.mark.parametrize("n", range(7))
def test_pass_at_k_is_the_share_of_all_choices_of_k_in_which_one_passes(n: int) -> None:
    for passed in range(n + 1):
        for k in range(1, n + 2):
            choices = list(combinations([True] * passed + [False] * (n - passed), k))
            expected = None if k > n else pytest.approx(sum(map(any, choices)) / len(choices))
            sql = f"SELECT {pass_at(k)} FROM (SELECT {n}::BIGINT AS scored, {passed}::BIGINT AS passed) g"
            assert duckdb.sql(sql).fetchall() == [(expected,)], (n, passed, k)


@pytest.fixture(params=[False, True], ids=["undrained", "drained"], scope="module")
def store_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps; in each, sample 2 has rewards 0 and 1, sample 10 twice 0.5, and sample x none."""
    path = tmp_path_factory.mktemp("groups")
    start(path)
    for step in (1, 2):
        for sample, rewards in ((2, (0.0, 1.0)), (10, (0.5, 0.5)), ("x", (None, None))):
            for n, reward in enumerate(rewards):
                with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n, difficulty=str(n)) as trajectory:
                    if sample == 2:
                        agent("bad" if n else "certificate", "longer " * n)
                if reward is not None:
                    rolltrace.score(trajectory, "reward", reward)
    with pytest.raises(RuntimeError), rolltrace.rollout_trace_attr(2, step=1, rollout_n=0, validate=True):
        raise RuntimeError("kaputt")
    rolltrace.shutdown()
    if request.param:
        drain(path)
    return path


@pytest.fixture(scope="module")
def store(store_path: Path) -> Store:
    return open_store(store_path)


def test_groups_are_listed_in_the_order_of_the_run(store: Store) -> None:
    rows = store.groups().rows()
    assert [(row["step"], row["validate"], row["sample_index"]) for row in rows] == [
        (1, False, 2), (1, False, 10), (1, False, "x"), (1, True, 2), (2, False, 2), (2, False, 10), (2, False, "x"),
    ]  # fmt: skip
    first, flat, unscored, failed, *_ = rows
    assert (first["size"], first["scored"], first["mean"], first["std"], first["passed"]) == (2, 2, 0.5, 0.5, 1)
    assert "tool_error" in first["flags"]
    assert (first["turns_mean"], first["zero_variance"]) == (2.0, False)
    assert (first["response_tokens_min"], first["response_tokens_max"]) == (0, 14)
    assert (flat["std"], flat["zero_variance"], flat["pass_rate"]) == (0.0, True, 1.0)
    assert (unscored["size"], unscored["scored"], unscored["mean"], unscored["pass_rate"]) == (2, 0, None, None)
    assert (failed["errors"], failed["best"]) == (1, None)


def test_best_and_worst_are_trajectories(store: Store) -> None:
    (row,) = store.groups(step=1, sample_index=2, validate=False).rows()
    assert [store.trajectory(row[name]).reward for name in ("best", "worst")] == [1.0, 0.0]


def test_the_threshold_says_what_passes_in_filters_too(store: Store) -> None:
    assert [row["passed"] for row in store.groups(step=2, threshold=0.6)] == [1, 0, 0]
    assert [row["sample_index"] for row in store.groups(step=2, where="group.pass_rate = 1")] == [10]
    assert [row["sample_index"] for row in store.groups(step=2, where="group.pass_rate = 0", threshold=0.6)] == [10]


def test_pass_at_k_is_missing_where_there_are_too_few(store: Store) -> None:
    result = store.groups(step=1, validate=False, k=[1, 2, 3])
    assert result.columns[-3:] == ["pass@1", "pass@2", "pass@3"]
    assert [(row["pass@1"], row["pass@2"], row["pass@3"]) for row in result] == [
        (0.5, 1.0, None),
        (1.0, 1.0, None),
        (None, None, None),
    ]
    assert store.groups(step=1, k=1, order="-pass@1").rows()[0]["sample_index"] == 10


def test_a_filter_finds_groups_that_hold_such_a_trajectory(store: Store) -> None:

    def samples(where: str) -> list[Any]:
        return [(row["step"], row["sample_index"]) for row in store.groups(where=where, validate=False)]

    assert samples("group.zero_variance = true") == [(1, 10), (2, 10)]
    assert samples("group.std = 0 and step = 2") == [(2, 10)]
    assert samples("reward = 0") == [(1, 2), (2, 2)]
    assert samples("text ~ 'certificate' and tool = 'search'") == [(1, 2), (2, 2)]
    assert samples("group.scored = 0") == [(1, "x"), (2, "x")]
    assert samples("reward = 7") == []
    assert len(store.trajectories(where="group.zero_variance = true")) == 4


def test_groups_are_sorted_and_limited(store: Store) -> None:
    rows = store.groups(order="-std,step", limit=2).rows()
    assert [(row["step"], row["sample_index"]) for row in rows] == [(1, 2), (2, 2)]


def test_steps_tell_how_many_passed_and_how_many_groups_are_flat(store: Store) -> None:
    rows = store.steps().rows()
    assert [(row["step"], row["validate"]) for row in rows] == [(1, False), (1, True), (2, False)]
    assert [row["pass_rate"] for row in rows] == [0.75, None, 0.75]
    assert [row["zero_variance_share"] for row in rows] == [0.5, None, 0.5]


def test_wrong_arguments_are_explained(store: Store) -> None:
    with pytest.raises(QueryError, match="groups cannot be sorted by 'rewrad'"):
        store.groups(order="rewrad")
    with pytest.raises(QueryError, match=r"k must be a number of rollouts, or several such as \[1, 4, 8\]; not 0"):
        store.groups(k=0)
    with pytest.raises(QueryError, match="threshold must be a finite number, not '1'"):
        store.groups(threshold="1")  # type: ignore[arg-type]
    with pytest.raises(FilterError):
        store.groups(where="group.sd = 0")


def test_a_group_is_compared_as_a_whole(store: Store) -> None:
    found = store.compare_group(1, 2, validate=False)
    assert [each.rollout_n for each in found.trajectories] == [0, 1]
    assert (found.best, found.first_diverging_turn) == (1, 0)
    assert [parting.turn for parting in found.partings] == [0, None]


def test_a_group_that_cannot_be_compared_is_explained(store: Store, tmp_path: Path) -> None:
    with pytest.raises(
        QueryError, match="several groups with step 1, sample 2; choose one with validate=: False, True"
    ):
        store.compare_group(1, 2)
    with pytest.raises(QueryError, match="needs two or more rollouts; step 1, sample 2 has 1"):
        store.compare_group(1, 2, validate=True)
    with pytest.raises(QueryError, match="step 7, sample 2 has none"):
        store.compare_group(7, 2)
    copy = Path(shutil.copytree(store.path, tmp_path / "copy"))
    start(copy, experiment_name="other")
    for n in range(2):
        with rolltrace.rollout_trace_attr(10, step=1, rollout_n=n):
            pass
    rolltrace.shutdown()
    two_experiments = open_store(copy)
    with pytest.raises(QueryError, match="choose one with experiment=: 'e', 'other'"):
        two_experiments.compare_group(1, 10)
    assert len(two_experiments.compare_group(1, 10, experiment="other").trajectories) == 2
