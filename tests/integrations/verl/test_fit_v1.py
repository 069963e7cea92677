"""Whole runs of the v1 trainer, verl's default: what was traced is what the trainer had; what became of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import transfer_queue
from verl.single_controller.ray import RayWorkerGroup

import rolltrace
from rolltrace.doctor.contents import check_losses
from rolltrace.integrations.verl import trainer
from rolltrace.query import Trajectory

from .own_manager import OwnManager, TracingManager
from .rig import Rig
from .stand_ins import serve
from .training_config import GAE, LATE
from .training_run import Done, of_trajectory, rounded

N = 4
ONE_WORKER = "actor_rollout_ref.rollout.agent.num_workers=1"
UNVALIDATED = ("trainer.val_before_train=False", "trainer.test_freq=-1")


@pytest.fixture(scope="module", autouse=True)
def server(rig: Rig) -> Iterator[None]:
    serve(rig.model)
    config = rig.config("queue", "transfer_queue.backend.SimpleStorage.num_data_storage_units=1")
    transfer_queue.init(config.transfer_queue)
    yield
    transfer_queue.close()


def unmatched(run: Done) -> list[Any]:
    """Scores of trajectories that nobody traced."""
    rows = rolltrace.open(run.store).unmatched_scores().rows()
    return [row for row in rows if row["experiment"] == run.name]


def fates(found: list[Trajectory]) -> Counter[Any]:
    return Counter((each.fate, each.fate_reason) for each in found)


@pytest.fixture(scope="module")
def grpo(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    questions = ["add a", "look b", "add c", "hi twice"]
    return Done(rig, store_folder, tmp_path_factory.mktemp("v1-grpo"), questions, engines=RayWorkerGroup)


@pytest.mark.parametrize(("step", "samples"), [(1, (0, 1)), (2, (2, 3))])
def test_each_rollout_of_a_step_is_a_trajectory_with_all_that_the_trainer_had(
    grpo: Done, recorded: Any, step: int, samples: tuple[int, int]
) -> None:
    found = [each for each in recorded(grpo.name, step) if not each.validate]
    assert [(each.sample_index, each.rollout_n) for each in found] == [(s, n) for s in samples for n in range(N)]
    assert [(each.status, each.fate) for each in found] == [("ok", "trained")] * len(found)
    assert sorted(map(of_trajectory, found)) == sorted(grpo.trained[step])
    assert len({each.reward for each in found}) == N
    assert max(each.advantage for each in found) == pytest.approx(grpo.metrics(step)["critic/advantages/max"], abs=1e-5)


def test_a_rollout_with_several_rows_in_the_queue_is_one_trajectory(grpo: Done, recorded: Any) -> None:
    found = [each for each in recorded(grpo.name, 2) if each.sample_index == 3]
    assert [len(each.scores) for each in found] == [3] * N  # a reward, an advantage, a fate


@pytest.mark.parametrize("step", [0, 2])
def test_validation_rollouts_are_apart_and_have_no_fate(grpo: Done, recorded: Any, step: int) -> None:
    found = [each for each in recorded(grpo.name, step) if each.validate]
    assert [(each.sample_index, each.rollout_n, each.fate) for each in found] == [(s, 0, None) for s in range(3)]
    expected = {row["uid"].rpartition("_")[0].rpartition("_")[0]: row for row in grpo.validated(step)}
    for each in found:
        row = expected[each.tags["uid"]]
        (reward,) = each.scores
        assert each.reward == row["score"]
        assert rounded(reward["terms"]) == rounded({name: row[name] for name in reward["terms"]})
    said = grpo.metrics(step)["val-aux/arithmetic/reward/mean@1"]
    assert mean(each.reward for each in found) == pytest.approx(said)


@pytest.fixture(scope="module")
def dapo(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    questions = ["add a", "same b", "look c", "hi d", "add e", "flaky f"]
    at_once = "algorithm.filter_groups.max_inflight_gen_batches=2"  # both that are to replace the one without a signal
    more = ("algorithm.filter_groups.enable=True", at_once, *UNVALIDATED, ONE_WORKER)
    return Done(rig, store_folder, tmp_path_factory.mktemp("v1-dapo"), questions, *more)


def test_groups_that_give_no_signal_and_those_too_many_are_filtered(dapo: Done, recorded: Any) -> None:
    found = recorded(dapo.name, 1)
    assert fates(found) == {
        ("trained", None): 2 * N,
        ("filtered", "all rewards alike"): N,
        ("filtered", "surplus"): N,
    }
    assert {each.sample_index for each in found if each.fate_reason == "all rewards alike"} == {1}
    trained = [of_trajectory(each) for each in found if each.fate == "trained"]
    assert sorted(trained) == sorted(dapo.trained[1])
    assert dapo.metrics(1)["training/filter_groups/evicted_samples"] == 1
    assert dapo.metrics(1)["training/filter_groups/discarded_surplus_samples"] == 1


def test_of_a_group_in_which_one_rollout_fails_the_others_are_trained(dapo: Done, recorded: Any) -> None:
    found = recorded(dapo.name, 2)
    failed = [each for each in found if each.status == "error"]
    assert [(each.sample_index, each.fate, each.fate_reason) for each in failed] == [
        (5, "filtered", "the rollout failed")
    ]
    trained = [of_trajectory(each) for each in found if each not in failed]
    assert len(trained) == 2 * N - 1
    assert sorted(trained) == sorted(dapo.trained[2])


def test_rows_that_verl_makes_up_are_no_trajectories(dapo: Done) -> None:
    assert unmatched(dapo) == []


@pytest.fixture(scope="module")
def ahead(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Rollouts are begun one batch ahead, but none may be older than the step."""
    questions = ["add a", "flaky ahead", *(f"hi {letter}" for letter in "cdefghij")]
    more = (
        "trainer.v1.trainer_mode=colocate_async",
        "trainer.v1.sampler.max_off_policy_threshold=1",
        *UNVALIDATED,
        ONE_WORKER,
    )
    return Done(rig, store_folder, tmp_path_factory.mktemp("v1-ahead"), questions, *more)


def test_what_an_asynchronous_trainer_drops_is_filtered_and_what_it_never_takes_has_no_fate(
    ahead: Done, recorded: Any
) -> None:
    found = recorded(ahead.name)
    told = fates(found)
    trained = [row for rows in ahead.trained.values() for row in rows]
    assert sorted(of_trajectory(each) for each in found if each.fate == "trained") == sorted(trained)
    dropped = sum(ahead.metrics(step).get("training/off_policy/evicted_samples", 0) for step in (1, 2))
    assert told["filtered", "stale"] == dropped * N > 0
    assert (told["filtered", "the rollout failed"], told["filtered", "a rollout of the group failed"]) == (1, N - 1)
    assert told.total() - told[None, None] == len(trained) + (dropped + 1) * N
    assert told[None, None] > 0


@pytest.fixture(scope="module")
def late(rig: Rig, store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    more = (
        *GAE,
        "data.train_batch_size=4",
        "actor_rollout_ref.rollout.n=2",
        "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker=1",
        "trainer.critic_warmup=2",
        "trainer.test_freq=-1",
    )
    questions = [f"{word} {number}" for number, word in enumerate(["add", "look", "hi", "hi twice"] * 2)]
    return Done(rig, store_folder, tmp_path_factory.mktemp("v1-late"), questions, *more, *LATE)


def test_a_limit_keeps_whole_groups_of_each_worker(late: Done, recorded: Any) -> None:
    for step in (1, 2):
        found = [each for each in recorded(late.name, step) if not each.validate]
        groups = Counter(each.sample_index for each in found)
        assert list(groups.values()) == [2, 2]
        assert len({each.worker for each in found}) == 2
        assert {each.rollout_n for each in found} == {0, 1}
    lost = [row for row in rolltrace.open(late.store).losses() if row["experiment"] == late.name]
    assert sum(row["count"] for row in lost) == 2 * 4 + 1  # of the training steps, and of the validation


def test_rollouts_that_are_not_traced_get_no_scores(late: Done) -> None:
    assert unmatched(late) == []


def test_a_reward_that_the_trainer_asks_for_later_reaches_its_trajectory_with_its_terms(
    late: Done, recorded: Any
) -> None:
    found = recorded(late.name, 2)
    assert {each.fate for each in found} == {"trained"}
    expected = {(row.uid, tuple(row.response)): row for row in late.trained[2]}
    traced = [of_trajectory(each) for each in found]
    assert traced == [expected[row.uid, tuple(row.response)] for row in traced]
    assert len({each.advantage for each in found}) == 4


def test_so_does_that_of_a_validation(late: Done, recorded: Any) -> None:
    found = [each for each in recorded(late.name, 0) if each.validate]
    expected = {row["uid"].rpartition("_")[0].rpartition("_")[0]: row for row in late.validated(0)}
    assert len(found) == 2
    assert [each.reward for each in found] == [expected[each.tags["uid"]]["score"] for each in found]
    assert all(each.scores[0]["terms"]["acc"] == 1.0 for each in found)


def test_a_rollout_that_only_the_critic_learns_from_says_so(late: Done, recorded: Any) -> None:
    assert list(late.trained) == [2]
    assert fates(recorded(late.name, 1)) == {("trained", "critic warm-up: only the critic"): 4}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(trainer, "_warned_untraced", False)
    return caplog


def test_a_manager_that_makes_rollouts_in_its_own_way_is_named_and_its_rollouts_are_counted(
    rig: Rig, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    (folder := tmp_path / "own").mkdir()
    run = Done(rig, tmp_path / "store", folder, ["a", "b", "c", "d"], *UNVALIDATED, manager=OwnManager)
    assert [len(rows) for rows in run.trained.values()] == [2 * N, 2 * N]
    (said,) = [record.getMessage() for record in logged.records if "are not traced" in record.getMessage()]
    assert "own_manager.OwnManager" in said
    assert rolltrace.flush()
    store = rolltrace.open(run.store)
    assert len(store.trajectories()) == 0
    assert store.unmatched_scores().rows() == []
    assert [(row["reason"], row["step"], row["count"]) for row in store.losses()] == [
        ("untraced_rollout", step, 2 * N) for step in (1, 2)
    ]
    (finding,) = check_losses(run.store)
    assert (finding.level, finding.what) == ("problem", "16 records lost: untraced_rollout")


def test_one_that_traces_them_itself_gets_what_the_trainer_makes_of_them(
    rig: Rig, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    (folder := tmp_path / "tracing").mkdir()
    run = Done(rig, tmp_path / "store", folder, ["a", "b", "c", "d"], *UNVALIDATED, manager=TracingManager)
    rows = rolltrace.open(run.store).trajectories(order="step, sample_index, rollout_n").rows()
    trained = [row for step in (1, 2) for row in run.trained[step]]
    assert [(row["fate"], row["trained_step"]) for row in rows] == [("trained", row["step"]) for row in rows]
    assert sorted(row["reward"] for row in rows) == sorted(row.reward for row in trained)
    assert sorted(round(row["advantage"], 5) for row in rows) == sorted(row.advantage for row in trained)
    assert rolltrace.open(run.store).losses().rows() == []
