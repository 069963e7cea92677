"""Whole training runs, in each of tinker-cookbook's modes: the store against tinker-cookbook's own summaries."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tinker_cookbook.distillation import sdft, train_on_policy
from tinker_cookbook.rl import train

import rolltrace
from rolltrace.integrations import tinker
from rolltrace.integrations.tinker.group import CONSTANT
from rolltrace.query import Trajectory, open_store
from tests.draining import drain

from .native import Line, summaries, told_by_store, told_by_summary
from .service import GROUPS, Held, Training, config, distillation_config, self_distillation
from .stand_ins import MODEL

MODES = ("sync", "stream", "async")
NUMBER = 3
"""Rollouts of a group."""


@dataclass
class Ran:
    """A training run that is over."""

    trained: list[Line]
    """tinker-cookbook's summaries."""
    evaluated: list[Line]
    recorded: list[Trajectory] = field(default_factory=list)

    @property
    def training(self) -> list[Trajectory]:
        return [each for each in self.recorded if not each.validate]

    @property
    def validation(self) -> list[Trajectory]:
        return [each for each in self.recorded if each.validate]


def run(folder: Path, mode: str, **more: Any) -> Ran:
    random.seed(1)
    store, log = folder / "store", folder / "log"
    rolltrace.init("tinker", mode, store=store, drain="off", quiet=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(train.main(config(str(log), mode, **more)))
    rolltrace.shutdown()
    return read(store, log)


def read(store: Path, log: Path) -> Ran:
    drain(store)
    with open_store(store) as opened:
        rows = opened.trajectories(limit=None)
        recorded = [opened.trajectory(row["trajectory_id"]) for row in rows]
    return Ran(summaries(log), summaries(log, "eval_test"), recorded)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    return {mode: run(tmp_path_factory.mktemp(mode), mode) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
def test_all_that_was_trained_is_in_the_store_once(mode: str, runs: dict[str, Ran]) -> None:
    ran = runs[mode]
    trained = [each for each in ran.training if each.fate == "trained"]
    ours = Counter((each.trained_step, told_by_store(each)) for each in trained)
    assert ours == Counter((line["iteration"], told_by_summary(line)) for line in ran.trained)


@pytest.mark.parametrize("mode", MODES)
def test_every_rollout_has_coordinates_of_its_own(mode: str, runs: dict[str, Ran]) -> None:
    places = Counter((each.step, each.sample_index, each.rollout_n) for each in runs[mode].training)
    expected = {(step, group, number) for step in range(2) for group in range(GROUPS) for number in range(NUMBER)}
    assert set(places) >= expected
    assert set(places.values()) == {1}


def test_groups_go_by_their_place_in_the_batch(runs: dict[str, Ran]) -> None:
    native = {(line["iteration"], line["group_idx"], line["traj_idx"]): line for line in runs["sync"].trained}
    ours = {(each.step, each.sample_index, each.rollout_n): each for each in runs["sync"].training}
    assert ours.keys() == native.keys()
    assert {key: told_by_store(each) for key, each in ours.items()} == {
        key: told_by_summary(line) for key, line in native.items()
    }


@pytest.mark.parametrize("mode", MODES)
def test_evaluations_are_validation_with_the_evaluators_name(mode: str, runs: dict[str, Ran]) -> None:
    ran = runs[mode]
    ours = {(each.step, each.sample_index, each.rollout_n): each for each in ran.validation}
    assert {each.tags["evaluator"] for each in ran.validation} == {"test"}
    native = {(line["iteration"], f"test/{line['group_idx']}", line["traj_idx"]): line for line in ran.evaluated}
    assert len(ours) == len(ran.validation)
    assert {key: told_by_store(ours[key]) for key in native} == {
        key: told_by_summary(line) for key, line in native.items()
    }
    again = ours.keys() - native.keys()  # an evaluation that is done again overwrites its summary
    assert all(number > 0 for _, _, number in again)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Groups with equal rewards are left out, environments fail and are tried again, and there is a KL penalty."""
    more: dict[str, Any] = {
        "remove_constant_reward_groups": True,
        "rollout_error_tolerance": True,
        "failures": 2,
        "kl_penalty_coef": 0.1,
        "kl_reference_config": train.KLReferenceConfig(base_model=MODEL),
    }
    Training.advantages.clear()
    return {mode: run(tmp_path_factory.mktemp(mode), mode, **more) for mode in ("sync", "stream")}


@pytest.mark.parametrize("mode", ["sync", "stream"])
def test_what_is_left_out_says_why(mode: str, filtered: dict[str, Ran]) -> None:
    ran = filtered[mode]
    fates = Counter((each.tags.get("tags", [""])[0], each.fate, each.fate_reason) for each in ran.training)
    assert fates["constant", "filtered", CONSTANT] == 2 * NUMBER
    assert fates["message", "filtered", "the rollout failed: ConnectionError"] == 2 * 2
    assert {fate for _, fate, _ in fates} == {"trained", "filtered"}
    assert all(each.trained_step == each.step for each in ran.training if each.fate == "trained")


@pytest.mark.parametrize("mode", ["sync", "stream"])
def test_all_that_was_trained_of_a_filtered_batch_is_in_the_store_once(mode: str, filtered: dict[str, Ran]) -> None:
    ran = filtered[mode]
    kept = [
        each for each in ran.training if each.fate == "trained" or (mode == "sync" and each.fate_reason == CONSTANT)
    ]
    native = Counter((line["iteration"], told_by_summary(line)) for line in ran.trained)
    assert Counter((each.step, told_by_store(each)) for each in kept) == native


def test_advantages_are_those_that_went_into_the_loss(filtered: dict[str, Ran]) -> None:
    ours = [each.advantage for ran in filtered.values() for each in ran.training if each.fate == "trained"]
    assert sorted(ours) == pytest.approx(sorted(Training.advantages), abs=1e-5)


def test_distillation_has_its_signal_after_the_penalty(tmp_path: Path) -> None:
    Training.advantages.clear()
    rolltrace.init("tinker", "distillation", store=tmp_path / "store", drain="off", quiet=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(train_on_policy.main(distillation_config(str(tmp_path / "log"))))
    rolltrace.shutdown()
    ran = read(tmp_path / "store", tmp_path / "log")
    places = {(each.step, each.sample_index, each.rollout_n) for each in ran.training}
    assert places == {(step, sample, number) for step in range(2) for sample in range(2) for number in range(2)}
    assert {(each.reward, each.fate, each.policy_version_max == each.step) for each in ran.training} == {
        (0.0, "trained", True)
    }
    ours = sorted(each.advantage or 0.0 for each in ran.training)
    assert ours == pytest.approx(sorted(Training.advantages), abs=1e-5)
    assert all(ours)
    assert Counter((each.step, each.sample_index) for each in ran.validation) == Counter(
        (step, f"test/{at}") for step in range(2) for at in range(4)
    )


@pytest.mark.parametrize("topk", [0, 2])
def test_self_distillation_is_recorded_with_nothing_but_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topk: int
) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")
    tinker.install()
    Training.advantages.clear()
    settings, dataset = self_distillation(str(tmp_path / "log"), topk)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(sdft.main(settings, dataset, Held()))
    rolltrace.shutdown()
    ran = read(tmp_path / "store", tmp_path / "log")
    places = [(each.step, each.sample_index, each.rollout_n) for each in ran.training]
    assert sorted(places) == [(step, sample, number) for step in range(2) for sample in range(2) for number in range(2)]
    told = {(each.fate, each.trained_step == each.step, each.policy_version_max == each.step) for each in ran.training}
    assert told == {("trained", True, True)}
    ours = sorted(each.advantage for each in ran.training if each.advantage is not None)
    assert ours == pytest.approx(sorted(Training.advantages), abs=1e-5)
    assert len(ours) == (0 if topk else 8)
    assert Counter((each.step, each.sample_index) for each in ran.validation) == Counter(
        (step, f"test/{at}") for step in range(2) for at in range(4)
    )
    assert {(each.project, each.experiment) for each in ran.recorded} == {("recipe_sdft", "log")}


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(tmp_path_factory.mktemp("stale"), "async", max_steps_off_policy=0, batches=4)


def test_what_was_too_old_to_be_trained_says_so(stale: Ran) -> None:
    untrained = [each for each in stale.training if each.fate != "trained"]
    assert untrained
    assert {each.fate for each in untrained} == {"filtered"}
    reasons = Counter((each.fate_reason or "").split(":")[0] for each in untrained)
    assert reasons["stale"] > 0
    assert set(reasons) <= {"stale", "left over at the end of training"}


def test_staleness_is_that_of_the_iteration_which_trained_on_it(stale: Ran, runs: dict[str, Ran]) -> None:
    for ran in (stale, runs["async"]):
        for each in ran.training:
            assert each.staleness is None or each.staleness >= 0
            if each.fate == "trained":
                assert each.staleness == each.trained_step - each.policy_version_min


def test_a_sample_that_is_drawn_again_goes_on_counting(stale: Ran) -> None:
    places = Counter((each.step, each.sample_index, each.rollout_n) for each in stale.training)
    assert set(places.values()) == {1}
    assert any((each.rollout_n or 0) >= NUMBER for each in stale.training)
    trained = [each for each in stale.training if each.fate == "trained"]
    assert Counter((each.trained_step, told_by_store(each)) for each in trained) == Counter(
        (line["iteration"], told_by_summary(line)) for line in stale.trained
    )
