"""`Store.score`: a person, or a notebook, says something about a trajectory of a store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import ConfigError, StoreError
from rolltrace.journal import drainer_lock, journal_files, journal_folder
from rolltrace.query import QueryError, open_store
from tests.draining import drain, rows

from .conftest import start


def write_runs(store: Path, drained: bool) -> None:
    for experiment in ("one", "two"):
        start(store, experiment_name=experiment)
        for sample in (7, experiment):
            with rolltrace.rollout_trace_attr(sample, step=3, rollout_n=0) as trajectory:
                trajectory.reward(0.0)
        rolltrace.shutdown()
    if drained:
        drain(store)


@pytest.fixture(params=[False, True], ids=["undrained", "drained"])
def store_path(request: pytest.FixtureRequest, tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path, write_runs, request.param)


@pytest.fixture
def drained_path(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path, write_runs, True)


def test_a_score_is_seen_at_once_by_whoever_looks(store_path: Path) -> None:
    store = open_store(store_path)
    (row,) = store.trajectories(experiment="one", sample_index=7)
    store.score(row["trajectory_id"][:12], "reward", 0.5, terms={"human": 0.5}, reason="read it")
    store.score(store.trajectory(row["trajectory_id"]), "note", "guesses")
    for each in (store, open_store(store_path)):
        (found,) = each.trajectories(where="label.note ~ 'guess' and reward = 0.5")
        assert found["trajectory_id"] == row["trajectory_id"]
        *_, reward, note = each.trajectory(row["trajectory_id"]).scores
        assert (reward["value"], reward["terms"], reward["reason"]) == (0.5, {"human": 0.5}, "read it")
        assert (note["label"], note["value"]) == ("guesses", None)


def test_nothing_is_left_to_drain_and_it_lies_with_its_trajectory(drained_path: Path) -> None:
    store = open_store(drained_path)
    (row,) = store.trajectories(experiment="two", sample_index="two")
    store.score(row["trajectory_id"], "note", "fine")
    assert journal_files(drained_path) == []
    (score,) = (score for score in rows(drained_path, "scores") if score["name"] == "note")
    assert (score["experiment"], score["step"], score["trajectory_id"]) == ("two", 3, row["trajectory_id"])


def test_a_drainer_at_work_is_left_to_do_it(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltrace.query.dataset._WAIT_FOR_SCORE_SEC", 0.0)
    store = open_store(store_path)
    assert len(store.trajectories()) == 4
    with drainer_lock(journal_folder(store_path)) as alone:
        assert alone
        before = len(journal_files(store_path))
        store.score((3, "one", 0), "note", "fine")
        assert len(journal_files(store_path)) == before + 1
    store.refresh()
    assert len(store.trajectories(where="label.note = 'fine'")) == 1


def test_coordinates_mean_the_one_run_that_has_them(store_path: Path) -> None:
    store = open_store(store_path)
    store.score((3, "two", 0), "fate", "filtered", reason="by hand")
    with pytest.raises(
        QueryError, match=r"specify which experiment \(3, 7, 0\) belongs to, .*: it may mean p / one, p / two"
    ):
        store.score((3, 7, 0), "reward", 1.0)
    store.score((3, 7, 0), "reward", 1.0, experiment="one")
    rows = store.trajectories(order="experiment,sample_index").rows()
    assert [(row["reward"], row["fate"]) for row in rows] == [(1.0, None), (0.0, None), (0.0, None), (0.0, "filtered")]


def test_an_unknown_trajectory_is_a_slip_unless_its_run_is_named(store_path: Path) -> None:
    store = open_store(store_path)
    with pytest.raises(QueryError, match="no trajectory has the id abab"):
        store.score("ab" * 16, "note", "fine")
    with pytest.raises(QueryError, match="it may mean p / one, p / two"):
        store.score((99, 1, 1), "note", "fine")
    assert len(store.unmatched_scores()) == 0
    store.score("ab" * 16, "note", "fine", project="p", experiment="new")
    store.score((99, 1, 1), "note", "fine", project="p", experiment="new")
    assert [row["experiment"] for row in store.unmatched_scores()] == ["new", "new"]


def test_what_makes_no_sense_is_raised_and_writes_nothing(store_path: Path) -> None:
    store = open_store(store_path)
    before = store.sql("SELECT count(*) AS n FROM scores").rows()
    with pytest.raises(ConfigError, match="must be a number or None"):
        store.score((3, "one", 0), "reward", [1])
    with pytest.raises(ConfigError, match="a score is about a trajectory id"):
        store.score((3,), "reward", 1)
    with pytest.raises(QueryError, match="32 hexadecimal digits"):
        store.score("x", "reward", 1)
    assert store.sql("SELECT count(*) AS n FROM scores").rows() == before


def test_secrets_in_a_note_are_taken_out(store_path: Path) -> None:
    store = open_store(store_path)
    store.score((3, "one", 0), "note", "it prints sk-" + "a1B2c3D4" * 6, reason="key sk-" + "a1B2c3D4" * 6)
    assert "a1B2c3D4" not in json.dumps(store.sql("SELECT label, reason FROM scores").rows())


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
def test_a_store_that_cannot_be_written_is_an_error(drained_path: Path) -> None:
    shutil.rmtree(drained_path / "journal")
    (drained_path / "journal").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write to the store"):
        open_store(drained_path).score((3, "one", 0), "note", "fine")
