"""Late scores join their trajectory, wherever they and it are: in a journal, in a part, in a compacted one."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rolltrace
from rolltrace.journal import journal_files
from rolltrace.query import Store, open_store
from rolltrace.tables import Place
from tests.draining import compact, drain
from tests.tables.conftest import Tables

from .conftest import agent, prune, start

DRAINED = ("nothing", "rollouts", "all", "all, compacted")


class Run:
    """Rollouts of four steps, and then a trainer that scores them: two writers, and a drainer where it is asked for."""

    def __init__(self, store: Path, drained: str) -> None:
        self.store = store
        self._drained = drained
        self.ids: dict[tuple[int, int, int], str] = {}
        start(store)
        for step in (1, 2, 3, 4):
            for sample in (3, 4):
                for n in range(2):
                    with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n) as trajectory:
                        trajectory.reward(0.25)
                    self.ids[step, sample, n] = trajectory.id
        rolltrace.shutdown()
        if drained != "nothing":
            drain(store)
        start(store)

    def read(self) -> Store:
        """The store after the trainer has ended."""
        rolltrace.shutdown()
        if self._drained.startswith("all"):
            drain(self.store, compacted="compacted" in self._drained)
        return open_store(self.store)


class Scored(NamedTuple):
    """A run whose trainer has ended."""

    ids: dict[tuple[int, int, int], str]
    store: Store


@pytest.fixture(params=DRAINED, scope="module")
def scored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scored:
    """A run with scores of all kinds, for tests that only ask."""
    run = Run(tmp_path_factory.mktemp("scored"), request.param)
    _score_rewards(run)
    _correct_a_reward(run)
    _tell_fates(run)
    _give_advantages(run)
    _score_the_unknown(run)
    return Scored(run.ids, run.read())


def rewards(store: Store, step: int | None = None) -> list[float | None]:
    return [row["reward"] for row in store.trajectories(step=step)]


def _score_rewards(run: Run) -> None:
    rolltrace.score(run.ids[1, 3, 0], "reward", 1.0, terms={"late": 1.0})
    rolltrace.score((1, 3, 1), "reward", 2.0)
    rolltrace.score((1, 4, 0), "reward", 7.0)
    rolltrace.score(run.ids[1, 4, 0], "reward", 3.0)
    rolltrace.score(run.ids[1, 4, 1], "reward", 7.0)
    rolltrace.score((1, 4, 1), "reward", 4.0)


def test_all_ways_to_ask_give_the_same_newest_score(scored: Scored) -> None:
    ids, store = scored
    assert rewards(store, 1) == [1.0, 2.0, 3.0, 4.0]
    assert rewards(store) == [1.0, 2.0, 3.0, 4.0, None, *[0.25] * 11]
    latest = (
        "SELECT value FROM latest_scores s JOIN trajectories USING (trajectory_id) "
        "WHERE step = 1 AND s.name = 'reward' ORDER BY ALL"
    )
    assert [row["value"] for row in store.sql(latest)] == [1.0, 2.0, 3.0, 4.0]
    found = store.trajectories(where="score.reward >= 3").rows()
    assert [(row["sample_index"], row["rollout_n"]) for row in found] == [(4, 0), (4, 1)]
    assert [row["mean"] for row in store.groups(step=1)] == [1.5, 3.5]
    assert [row["reward_mean"] for row in store.steps()] == [2.5, 0.25, 0.25, 0.25]
    assert [row["mean"] for row in store.history(4)] == [3.5, 0.25, 0.25, 0.25]
    for (_, sample, n), expected in zip(list(ids)[:4], (1.0, 2.0, 3.0, 4.0)):
        trajectory = store.trajectory(ids[1, sample, n])
        assert (trajectory.reward, trajectory.scores[-1]["value"]) == (expected, expected)


def _correct_a_reward(run: Run) -> None:
    rolltrace.score(run.ids[2, 3, 0], "reward", 1, terms={"judge": 1})
    rolltrace.score((2, 3, 0), "reward", None, reason="the judge was wrong")
    rolltrace.score(run.ids[2, 3, 0], "note", "looked at twice")


def test_the_history_is_kept_in_order(scored: Scored) -> None:
    ids, store = scored
    trajectory = store.trajectory(ids[2, 3, 0])
    said = [(row["name"], row["value"], row["label"], row["terms"], row["reason"]) for row in trajectory.scores]
    assert said == [
        ("reward", 0.25, None, {}, None),
        ("reward", 1.0, None, {"judge": 1}, None),
        ("reward", None, None, {}, "the judge was wrong"),
        ("note", None, "looked at twice", {}, None),
    ]
    assert trajectory.reward is None


def _tell_fates(run: Run) -> None:
    rolltrace.score((3, 3, 0), "advantage", -0.5)
    rolltrace.score(run.ids[3, 3, 0], "fate", "trained")
    rolltrace.score(run.ids[3, 3, 0], "fate", "filtered", reason="too long")
    rolltrace.score((3, 3, 1), "fate", "trained")


def test_advantage_and_fate_are_columns_and_filters(scored: Scored) -> None:
    store = scored.store
    first, second, *_ = store.trajectories(step=3).rows()
    assert (first["advantage"], first["fate"], first["fate_reason"]) == (-0.5, "filtered", "too long")
    assert (second["advantage"], second["fate"], second["fate_reason"]) == (None, "trained", None)
    assert len(store.trajectories(where="fate = 'filtered' and fate_reason ~ 'LONG' and advantage < 0")) == 1
    assert len(store.trajectories(where="label.fate = 'trained' and score.fate is null")) == 1


def _give_advantages(run: Run) -> None:
    rolltrace.score(run.ids[4, 4, 1], "advantage", 1.0)
    rolltrace.score((4, 4, 0), "advantage", 2.0)


def test_scores_have_the_place_of_their_trajectory_however_they_were_given(scored: Scored) -> None:
    ids, store = scored
    rows = store.sql("SELECT * FROM scores WHERE name = 'advantage' AND step = 4 ORDER BY value").rows()
    assert [row["trajectory_id"] for row in rows] == [ids[4, 4, 1], ids[4, 4, 0]]
    assert [(row["step"], row["sample_index"], row["rollout_n"]) for row in rows] == [(4, "4", 1), (4, "4", 0)]
    of_rollouts = "FROM scores WHERE trajectory_id IS NOT NULL AND step IS NOT NULL"
    counts = store.sql(f"SELECT step, count(*) AS n {of_rollouts} GROUP BY step ORDER BY step").rows()
    assert [(row["step"], row["n"]) for row in counts] == [(1, 10), (2, 7), (3, 8), (4, 6)]


UNKNOWN = "ab" * 16


def _score_the_unknown(run: Run) -> None:
    rolltrace.score(UNKNOWN, "reward", 1.0)
    rolltrace.score((9, "uuid", 0, True), "fate", "trained", reason="why")
    rolltrace.score((1, 3, 0, True), "reward", 5.0)  # there is a training rollout, not a validation one


def test_a_score_of_an_unknown_trajectory_is_kept_and_shown_as_such(scored: Scored) -> None:
    store = scored.store
    rows = store.unmatched_scores().rows()
    assert [(row["trajectory_id"], row["step"], row["sample_index"]) for row in rows] == [
        (UNKNOWN, None, None),
        (None, 9, "uuid"),
        (None, 1, 3),
    ]
    assert (rows[1]["label"], rows[1]["reason"], rows[1]["validate"]) == ("trained", "why", True)
    assert 5.0 not in rewards(store)
    # A reward of each rollout; what was said of other names; nothing of what nobody traced.
    assert store.sql("SELECT name, count(*) AS n FROM latest_scores GROUP BY 1 ORDER BY 1").rows() == [
        {"name": "advantage", "n": 3}, {"name": "fate", "n": 2}, {"name": "note", "n": 1}, {"name": "reward", "n": 16},
    ]  # fmt: skip


def test_a_score_waits_for_a_trajectory_that_is_not_known_yet(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=5, rollout_n=0):
        pass
    rolltrace.shutdown()
    (journal,) = journal_files(tmp_path)
    away = journal.rename(tmp_path.with_name("away"))
    start(tmp_path)
    rolltrace.score((5, 1, 0), "reward", 3.0)
    store = open_store(tmp_path)
    assert len(store.unmatched_scores()) == 1
    away.rename(journal)
    store.refresh()
    assert rewards(store, 5) == [3.0]
    rolltrace.shutdown()
    drain(tmp_path)
    store.refresh()
    assert rewards(store, 5) == [3.0]
    assert len(store.unmatched_scores()) == 0


@pytest.mark.parametrize("drained", ["nothing", "between", "all", "all, compacted"])
@pytest.mark.parametrize("scorer", ["rollouts", "apart"])
def test_a_score_is_never_about_a_trajectory_that_began_later(tmp_path: Path, scorer: str, drained: str) -> None:
    """One before any rollout, one between two tries, one after: by the run of the rollouts, or one of its own."""

    def rollout() -> str:
        start(tmp_path, run="rollouts")
        with rolltrace.rollout_trace_attr(1, step=5, rollout_n=0) as trajectory:
            pass
        rolltrace.shutdown()
        return trajectory.id

    def score(value: float) -> None:
        start(tmp_path, run=scorer)
        rolltrace.score((5, 1, 0), "reward", value)
        rolltrace.shutdown()
        if drained == "between":
            drain(tmp_path)

    score(1.0)
    first = rollout()
    score(2.0)
    second = rollout()
    store = open_store(tmp_path)
    assert {row["trajectory_id"]: row["reward"] for row in store.trajectories(step=5)} == {first: 2.0, second: None}
    score(3.0)
    if drained.startswith("all"):
        drain(tmp_path, compacted="compacted" in drained)
    store.refresh()
    assert {row["trajectory_id"]: row["reward"] for row in store.trajectories(step=5)} == {first: 2.0, second: 3.0}
    assert [score["value"] for score in store.trajectory(first).scores] == [2.0]
    assert [row["value"] for row in store.unmatched_scores()] == [1.0]


@pytest.mark.parametrize("drained", [False, True])
def test_of_a_rollout_that_was_tried_again_the_last_try_is_scored(tmp_path: Path, drained: bool) -> None:
    start(tmp_path)
    for _ in range(3):
        with rolltrace.rollout_trace_attr(1, step=5, rollout_n=0), rolltrace.rollout_trace_attr(1, step=5, rollout_n=0):
            pass  # a part of the rollout that takes its coordinates over
    rolltrace.score((5, 1, 0), "reward", 1.0)
    rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    store = open_store(tmp_path)
    rows = store.trajectories(step=5, order="start_ns").rows()
    assert [row["reward"] for row in rows] == [None] * 4 + [1.0, None]
    assert store.trajectory(rows[4]["trajectory_id"]).parent_trajectory_id is None


@pytest.mark.parametrize("drained", [False, True])
def test_nan_and_infinity_are_scores_like_others(tmp_path: Path, drained: bool) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=5, rollout_n=0):
        pass
    for value in (1.0, math.inf, math.nan):
        rolltrace.score((5, 1, 0), "reward", value)
        rolltrace.score((5, 1, 0), "advantage", -value)
    rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    store = open_store(tmp_path)
    (row,) = store.trajectories(where="reward = nan and score.advantage = nan")
    assert math.isnan(row["reward"])
    assert len(store.trajectories(where="reward > 0 or reward < 0")) == 0


@pytest.mark.parametrize("drained", [False, True])
def test_a_trajectory_without_step_gets_late_scores_too(tmp_path: Path, drained: bool) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr("a"):
        pass
    with rolltrace.rollout_trace_attr("b") as other:
        pass
    rolltrace.score((None, "a", None), "reward", 1.0)
    rolltrace.score(other.id, "reward", 2.0)
    rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    assert rewards(open_store(tmp_path)) == [1.0, 2.0]


def test_by_coordinates_only_the_own_run_is_meant(tmp_path: Path) -> None:
    ids: dict[str, str] = {}
    for experiment in ("one", "two"):
        start(tmp_path, experiment_name=experiment)
        with rolltrace.rollout_trace_attr(1, step=5, rollout_n=0) as trajectory:
            ids[experiment] = trajectory.id
        rolltrace.score((5, 1, 0), "reward", 1.0 if experiment == "one" else 2.0)
        rolltrace.shutdown()
    start(tmp_path, experiment_name="judge")
    rolltrace.score(ids["two"], "advantage", 3.0)  # an id is unique, whoever says it
    rolltrace.shutdown()
    drain(tmp_path)
    store = open_store(tmp_path)
    assert [(row["reward"], row["advantage"]) for row in store.trajectories()] == [(1.0, None), (2.0, 3.0)]


@pytest.mark.parametrize(("drained", "values"), [("nothing", [1.0]), ("rollouts", [1.0, 2.0])])
def test_a_step_that_is_settled_still_gets_late_scores(tmp_path: Path, drained: str, values: list[float]) -> None:
    """The listing of such a step is kept from question to question."""
    run = Run(tmp_path, drained)
    store = open_store(run.store)
    assert rewards(store, 1) == rewards(store, 2) == [0.25] * 4
    for value in values:
        rolltrace.score(run.ids[1, 3, 0], "reward", value)
        rolltrace.score((1, 3, 1), "reward", value)
        store.refresh()
        assert rewards(store, 1) == [value, value, 0.25, 0.25]
        assert rewards(store)[:3] == [value, value, 0.25]
        rolltrace.shutdown()
        drain(run.store, compacted=True)
        store.refresh()
        assert rewards(store, 1) == [value, value, 0.25, 0.25]
        assert rewards(store)[:3] == [value, value, 0.25]
        start(run.store)


def test_staleness_is_how_far_the_weights_are_behind_the_step(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=5):
        agent("q")  # its model calls say policy versions 3 and 4
    with rolltrace.rollout_trace_attr(2, step=5):
        pass
    rolltrace.shutdown()
    store = open_store(tmp_path)
    assert [row["staleness"] for row in store.trajectories()] == [2, None]
    assert len(store.trajectories(where="staleness >= 2")) == 1
    assert store.trajectory(store.trajectories().rows()[0]["trajectory_id"]).staleness == 2


def test_staleness_counts_from_the_step_that_trained_on_it_and_is_never_negative(tmp_path: Path) -> None:
    start(tmp_path)
    for sample, step in ((1, 5), (2, 0), (3, 0)):  # the step of an asynchronous rollout may be a batch of the data
        with rolltrace.rollout_trace_attr(sample, step=step) as rollout:
            agent("q")  # its model calls say policy versions 3 and 4
        if sample < 3:
            rolltrace.score(rollout, "fate", "trained", trained_step=8)
    rolltrace.shutdown()
    store = open_store(tmp_path)
    assert {row["sample_index"]: row["staleness"] for row in store.trajectories()} == {1: 5, 2: 5, 3: None}
    assert len(store.trajectories(where="staleness >= 5")) == 2


@pytest.mark.parametrize("drained", ["all", "all, compacted"])
def test_pruning_keeps_every_score(tmp_path: Path, drained: str) -> None:
    run = Run(tmp_path, drained)
    rolltrace.score(run.ids[1, 3, 0], "reward", 1.0)
    rolltrace.score((1, 3, 1), "fate", "filtered", reason="why")
    store = run.read()
    before: list[dict[str, Any]] = store.sql("SELECT * FROM scores ORDER BY ALL").rows()
    prune(run.store, set(run.ids.values()), whole=True)
    store.refresh()
    assert store.sql("SELECT * FROM scores ORDER BY ALL").rows() == before
    assert rewards(store, 1) == [1.0, 0.25, 0.25, 0.25]


def test_a_hundred_conditions_on_scores_and_groups_are_answered(tmp_path: Path) -> None:
    run = Run(tmp_path, "all")
    rolltrace.score(run.ids[1, 3, 0], "acc", 1.0)
    store = run.read()
    many = " or ".join([f"score.acc = {n} or group.mean = {n}" for n in range(1, 51)])
    assert len(store.trajectories(step=1, where=many)) == 1
    assert len(store.groups(step=1, where=many)) == 1


@pytest.mark.parametrize("settled", [False, True])
def test_many_scores_in_any_order_agree_with_plain_python(tmp_path: Path, settled: bool) -> None:
    """By id, by coordinates, by both; of three writers; with times that are often the same."""
    chance = random.Random(4)
    ids = {(step, n): f"{chance.getrandbits(128):032x}" for step in (1, 2) for n in range(12)}
    newest: dict[tuple[int, int, str], tuple[Any, ...]] = {}
    tables = Tables(tmp_path)
    for (step, n), trajectory_id in ids.items():
        at = {"sample_index": str(n % 3), "sample_number": n % 3, "rollout_n": n}
        own = {
            "trajectory_id": trajectory_id,
            "name": "r",
            "start_ns": 0,
            "end_ns": 2,
            "status": "ok",
            "status_rank": 4,
        }
        rows = []
        for value in range(12):
            name, time_ns, worker = chance.choice(["reward", "advantage"]), chance.randrange(3), chance.choice("ab")
            said = {"name": name, "time_ns": time_ns, "worker": worker, "value": float(value), "terms": "{}"}
            nowhere = {"sample_index": None, "rollout_n": None}
            by_id = {"trajectory_id": trajectory_id}
            rows.append({**chance.choice([{**nowhere, **by_id}, at, {**at, **by_id}]), **said})
            key = (step, n, name)
            newest[key] = max(newest.get(key, ()), (time_ns, worker, float(value)))
        tables.add(place=Place("p", "e", step), trajectories=[{**at, **own}], scores=rows)
    if settled:
        compact(tmp_path)
    store = open_store(tmp_path)
    latest = {(row["trajectory_id"], row["name"]): row["value"] for row in store.sql("FROM latest_scores")}
    for step in (1, 2):
        for row in store.trajectories(step=step):
            for name in ("reward", "advantage"):
                expected = newest.get((step, row["rollout_n"], name), (None,))[-1]
                assert row[name] == expected
                assert latest.get((row["trajectory_id"], name)) == expected
    assert [row["reward"] for row in store.trajectories()] == [
        row["reward"] for step in (1, 2) for row in store.trajectories(step=step)
    ]
    assert len(store.unmatched_scores()) == 0
