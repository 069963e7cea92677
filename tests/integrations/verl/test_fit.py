"""Whole runs of `RayPPOTrainer.fit`: what was traced is what the trainer had, of every rollout of every step."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from verl.single_controller.ray import RayWorkerGroup

from rolltrace.query import Trajectory

from .rig import Rig
from .stand_ins import serve
from .training_config import GAE, LATE
from .training_run import Done, of_trajectory, rounded

V0 = "trainer.use_v1=False"
N = 4
QUESTIONS = ["add a", "hi b", "look c", "hi d"]


@pytest.fixture(scope="module", autouse=True)
def server(rig: Rig) -> None:
    serve(rig.model)


@pytest.fixture(scope="module")
def grpo(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return Done(rig, store_folder, tmp_path_factory.mktemp("fit-grpo"), QUESTIONS, V0, engines=RayWorkerGroup)


def trained(found: list[Trajectory]) -> list[Trajectory]:
    return [each for each in found if each.fate == "trained"]


@pytest.mark.parametrize(("step", "samples"), [(1, (0, 1)), (2, (2, 3))])
def test_each_rollout_of_a_step_is_a_trajectory_with_all_that_the_trainer_had(
    grpo: Done, recorded: Any, step: int, samples: tuple[int, int]
) -> None:
    found = [each for each in recorded(grpo.name, step) if not each.validate]
    assert [(each.sample_index, each.rollout_n) for each in found] == [(s, n) for s in samples for n in range(N)]
    assert [(each.status, each.fate) for each in found] == [("ok", "trained")] * len(found)
    assert sorted(map(of_trajectory, found)) == sorted(grpo.trained[step])
    assert len({each.reward for each in found}) == N
    metrics = grpo.metrics(step)
    assert mean(each.reward for each in found) == pytest.approx(metrics["critic/score/mean"], abs=1e-5)
    assert max(each.advantage for each in found) == pytest.approx(metrics["critic/advantages/max"], abs=1e-5)


@pytest.mark.parametrize("step", [0, 2])
def test_validation_rollouts_are_apart_and_have_no_fate(grpo: Done, recorded: Any, step: int) -> None:
    found = [each for each in recorded(grpo.name, step) if each.validate and each.fate is None]
    expected = grpo.validated(step)
    assert [(each.sample_index, each.rollout_n) for each in found] == [(sample, 0) for sample in range(3)]
    assert [each.reward for each in found] == [row["score"] for row in expected]
    for each, row in zip(found, expected, strict=True):
        (reward,) = each.scores
        assert rounded(reward["terms"]) == rounded({name: row[name] for name in reward["terms"]})
        assert (each.turns, each.tool_calls) == ((1, 0) if "hi" in row["input"] else (2, 1))
    said = grpo.metrics(step)["val-aux/arithmetic/reward/mean@1"]
    assert mean(each.reward for each in found) == pytest.approx(said)


def test_a_rollout_that_only_pads_a_validation_batch_says_so(grpo: Done, recorded: Any) -> None:
    (extra,) = (each for each in recorded(grpo.name, 0) if each.fate is not None)
    assert (extra.sample_index, extra.rollout_n, extra.fate) == (0, 1, "filtered")
    assert "padding" in (extra.fate_reason or "")


@pytest.fixture(scope="module")
def remax(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("fit-remax")
    more = ("algorithm.adv_estimator=remax", "actor_rollout_ref.rollout.n=2")
    return Done(rig, store_folder, folder, QUESTIONS, V0, *more, *LATE)


def test_a_reward_that_the_trainer_asks_for_later_reaches_its_trajectory_with_its_terms(
    remax: Done, recorded: Any
) -> None:
    for step in (1, 2):
        found = trained(recorded(remax.name, step))
        assert len(found) == 2 * 2
        assert sorted(map(of_trajectory, found)) == sorted(remax.trained[step])


def test_so_does_that_of_a_validation(remax: Done, recorded: Any) -> None:
    found = [each for each in recorded(remax.name, 0) if each.validate and each.fate is None]
    assert [each.reward for each in found] == [row["score"] for row in remax.validated(0)]
    assert [each.scores[0]["terms"]["number"] for each in found] == [row["number"] for row in remax.validated(0)]


def test_the_baseline_of_remax_is_a_rollout_that_is_not_trained_on(remax: Done, recorded: Any) -> None:
    for step in (1, 2):
        found = [each for each in recorded(remax.name, step) if not each.validate and each.fate == "filtered"]
        assert [each.rollout_n for each in found] == [2, 2]
        assert {each.fate_reason for each in found} == {"the greedy baseline of ReMax"}
        assert all(each.advantage is None and each.reward is not None for each in found)


@pytest.fixture(scope="module")
def gae(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """With a critic, and with a rollout correction that rejects long rollouts: those with a tool."""
    more = (
        *GAE,
        "algorithm.use_kl_in_reward=True",
        "algorithm.rollout_correction.rollout_rs=seq_sum_k2",
        "algorithm.rollout_correction.rollout_rs_threshold=3.5",
        "actor_rollout_ref.rollout.n=2",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "trainer.critic_warmup=2",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
    )
    return Done(rig, store_folder, tmp_path_factory.mktemp("fit-gae"), QUESTIONS, V0, *more)


def test_of_an_advantage_that_differs_from_token_to_token_the_mean_is_kept(gae: Done, recorded: Any) -> None:
    found = trained(recorded(gae.name, 2))
    assert sorted(map(of_trajectory, found)) == sorted(gae.trained[2])
    assert len({each.advantage for each in found}) == 2


def test_a_rollout_that_is_rejected_is_filtered(gae: Done, recorded: Any) -> None:
    found = recorded(gae.name, 2)
    assert [(each.sample_index, each.fate) for each in found] == [(2, "filtered")] * 2 + [(3, "trained")] * 2
    assert {each.fate_reason for each in found[:2]} == {"no token is left to train on, as rollout correction does"}
    assert all(each.reward is not None and each.advantage is None for each in found[:2])


def test_a_rollout_that_only_the_critic_learns_from_says_so(gae: Done, recorded: Any) -> None:
    assert list(gae.trained) == [2]
    found = trained(recorded(gae.name, 1))
    assert sorted(map(of_trajectory, found)) == sorted(gae.trainer.criticised[1])
    assert {each.fate_reason for each in found} == {"critic warm-up: only the critic"}
    assert {each.fate_reason for each in trained(recorded(gae.name, 2))} == {None}
