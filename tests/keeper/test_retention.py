"""The policy of a store is applied to finished steps, by the real keeper; whatever happens, the counts are right."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.keeper import upkeep
from rolltrace.keeper.policy import RetentionPolicy, write_policy
from rolltrace.keeper.process import follow
from rolltrace.keeper.retention import Retained, decide, retain
from rolltrace.keeper.sender_loop import SenderLoop
from rolltrace.tables import TABLE_SCHEMAS, TableStore, address_in, note_routes
from tests.background import eventually
from tests.draining import compact, drain
from tests.draining import rows as table_rows
from tests.keeper.conftest import asked
from tests.nightly import nightly

STEPS, SAMPLES, GROUP = range(1, 4), range(4), 2
SPREAD, FAILING = 1, 2
"""The sample of which the rollouts have different rewards, and the one of which one fails."""
ERRORS_AND_EXTREMES = RetentionPolicy(keep=("errors", "extremes"))
Place = tuple[int, int]
NOISE = random.Random(0)


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], text: str) -> dict[str, Any]:
    return {"token_ids": prompt_ids[::-1], "text": text}


@rolltrace.rollout_trace_op
def think(text: str) -> str:
    return text


def rollout(step: int | None, sample: Any, n: int, *, reward: float | None = None, fail: bool = False) -> str:
    """One trajectory; its id."""
    entry = rolltrace.rollout_trace_attr(step=step, sample_index=sample, rollout_n=n)
    try:
        with entry as trajectory:
            generate(list(range(300)), f"{step} {sample} {n} " * 50)
            think(NOISE.randbytes(600).hex())
            trajectory.transition({"prompt": "p" * 200}, reward=0.5)
            trajectory.note("note")
            if reward is not None:
                trajectory.reward(reward)
            if fail:
                raise RuntimeError("failed")
    except RuntimeError:
        pass
    return trajectory.id


def write_run(store: Path) -> None:
    """The first step has a journal file of its own, the others share one."""
    for steps in (STEPS[:1], STEPS[1:]):
        # Also before the tests are made one run: what they add belongs to the same groups.
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off", run="test")
        for step, sample, n in itertools.product(steps, SAMPLES, range(GROUP)):
            reward = float(n) if sample == SPREAD else 1.0
            rollout(step, sample, n, reward=reward, fail=sample == FAILING and n == 0)
        rolltrace.shutdown()


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All steps, samples and rollouts, drained. To be copied."""
    store = tmp_path_factory.mktemp("run") / "store"
    write_run(store)
    drain(store)
    return store


@pytest.fixture
def store(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "store"))


def apply(store: Path, policy: RetentionPolicy = ERRORS_AND_EXTREMES) -> Retained:
    with drainer_lock(journal_folder(store)) as alone:
        assert alone
        return retain(store, policy)


def without_payload(store: Path) -> set[Place]:
    """The (step, sample) of which all trajectories lost their payloads. No group has lost a part of them."""
    found: dict[Place, set[bool]] = {}
    for row in asked(store).sql("SELECT step, sample_index, inputs, tokens, kind FROM spans").rows():
        place = (row["step"], int(row["sample_index"]))
        found.setdefault(place, set()).add(row["inputs"] is None and row["tokens"] is None)
    assert all(len(states) == 1 for states in found.values())
    return {place for place, states in found.items() if states == {True}}


def losses(store: Path) -> dict[int, int]:
    return {row["step"]: row["count"] for row in asked(store).losses() if row["reason"] == "retention"}


def summary(store: Path) -> list[dict[str, Any]]:
    return asked(store).trajectories().rows()


def size(store: Path) -> int:
    """Of the ops; that the payloads of a trajectory went is a note, which takes some bytes in another table."""
    return sum(file.size_bytes for file in TableStore(address_in(store)).files("ops"))


def versions(store: Path) -> dict[str, int]:
    tables = TableStore(address_in(store))
    return {schema.name: tables.table(schema.name).version for schema in TABLE_SCHEMAS}


FINISHED = STEPS[:-1]
PLAIN = len(SAMPLES) - 2
"""How many samples of a step have one reward and no failure."""
DROPPED = {(step, sample) for step in FINISHED for sample in SAMPLES if sample not in (SPREAD, FAILING)}
"""What `ERRORS_AND_EXTREMES` does not keep of the finished steps."""
COUNTED = dict.fromkeys(FINISHED, GROUP * PLAIN)


def test_what_the_policy_does_not_keep_loses_its_payloads(store: Path) -> None:
    before, size_before = summary(store), size(store)
    done = apply(store)
    assert (done.pruned.trajectories, done.steps) == (len(DROPPED) * GROUP, len(FINISHED))
    assert without_payload(store) == DROPPED
    assert losses(store) == COUNTED
    assert summary(store) == before
    assert size(store) < size_before


def test_with_whole_the_ops_go_too_and_the_summary_stays(store: Path) -> None:
    before = summary(store)
    apply(store, RetentionPolicy(keep=("errors", "extremes"), whole=True))
    rows = asked(store).sql("SELECT step, sample_index, kind FROM spans").rows()
    dropped = [row["kind"] for row in rows if (row["step"], int(row["sample_index"])) in DROPPED]
    assert dropped == ["llm"] * (len(DROPPED) * GROUP)
    assert len(asked(store).sql("SELECT * FROM transitions")) == (len(STEPS) * len(SAMPLES) - len(DROPPED)) * GROUP
    assert summary(store) == before
    assert losses(store) == COUNTED


def test_applying_it_again_changes_nothing(store: Path) -> None:
    apply(store)
    before = versions(store)
    assert apply(store).steps == 0
    (journal_folder(store) / "retention.done").unlink()
    again = apply(store)
    assert (again.steps, again.pruned.trajectories) == (len(FINISHED), 0)
    assert versions(store) == before


def test_what_compaction_writes_is_not_counted_again(store: Path) -> None:
    apply(store)
    compact(store)
    assert apply(store).pruned.trajectories == 0
    assert apply(store).steps == 0
    assert losses(store) == COUNTED
    assert without_payload(store) == DROPPED


def test_another_policy_is_applied_to_the_same_steps(store: Path) -> None:
    apply(store)
    done = apply(store, RetentionPolicy(keep=("errors",)))
    assert (done.steps, done.pruned.trajectories) == (len(FINISHED), len(FINISHED) * GROUP)
    assert losses(store) == dict.fromkeys(FINISHED, GROUP * (PLAIN + 1))


def test_more_steps_can_be_waited_for(store: Path) -> None:
    apply(store, RetentionPolicy(keep=("errors", "extremes"), after_steps=2))
    assert set(losses(store)) == {1}


def test_a_share_of_the_rest_is_kept_the_same_samples_in_every_step(store: Path) -> None:
    apply(store, RetentionPolicy(keep=(), share=0.5))
    gone = {step: {sample for each, sample in without_payload(store) if each == step} for step in FINISHED}
    assert gone[1] == gone[2]
    assert 0 < len(gone[1]) < len(SAMPLES)


def test_other_experiments_are_left_alone_when_some_are_named(store: Path) -> None:
    assert apply(store, RetentionPolicy(experiments=("other",))).steps == 0
    assert apply(store, RetentionPolicy(experiments=("other", "e"))).steps == len(FINISHED)


def test_looking_changes_nothing(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))}
    decision = decide(store, ERRORS_AND_EXTREMES)
    assert sum(map(len, decision.chosen.values())) == len(DROPPED) * GROUP
    assert decision.keep == dict.fromkeys(("extremes", "errors"), len(FINISHED) * GROUP)
    assert {path: path.stat().st_mtime_ns for path in sorted(store.rglob("*"))} == before


def test_a_group_waits_for_its_reward_and_goes_when_it_has_come(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    rollout(1, 1, 0, reward=1.0)
    entry = rolltrace.rollout_trace_attr(step=1, sample_index=2, rollout_n=0)
    with entry as late:
        generate([1, 2, 3], "text")
    rollout(2, 1, 0, reward=1.0)
    assert rolltrace.capture.scope.recorder is not None
    rolltrace.capture.scope.recorder.sink.turn_over()
    drain(tmp_path)
    apply(tmp_path)
    assert without_payload(tmp_path) == {(1, 1)}
    assert apply(tmp_path).steps == 0
    late.reward(1.0)
    rolltrace.shutdown()
    drain(tmp_path)
    apply(tmp_path)
    assert without_payload(tmp_path) == {(1, 1), (1, 2)}
    assert losses(tmp_path) == {1: 2}


def test_without_any_rewards_the_rest_of_the_policy_applies(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in (1, 2):
        rollout(step, 1, 0)
        rollout(step, 2, 0, fail=True)
    rolltrace.shutdown()
    drain(tmp_path)
    apply(tmp_path)
    assert without_payload(tmp_path) == {(1, 1)}


def test_rewards_of_other_steps_are_a_reason_to_wait(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    rollout(1, 1, 0)
    rollout(2, 1, 0, reward=1.0)
    rolltrace.shutdown()
    drain(tmp_path)
    apply(tmp_path)
    assert without_payload(tmp_path) == set()


def test_live_data_is_never_touched(store: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    still_there = rollout(1, 0, 99, reward=1.0)
    running = rolltrace.rollout_trace_attr(step=2, sample_index=0, rollout_n=99)
    running.__enter__()
    drain(store)
    apply(store)
    assert without_payload(store) == DROPPED - {(2, 0)}
    running.__exit__(None, None, None)
    rolltrace.shutdown()
    drain(store)
    apply(store)
    assert without_payload(store) == DROPPED - {(2, 0)}, "the one that ran has no reward"
    assert losses(store) == {1: GROUP * PLAIN + 1, 2: GROUP * (PLAIN - 1)}
    assert asked(store).trajectory(still_there).reward == 1.0


def test_what_a_backend_is_still_to_be_given_waits_for_it(store: Path, harbour: Any) -> None:
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["shipping"]})
    assert apply(store).pruned.trajectories == 0
    assert SenderLoop(store, "shipping").run(idle_sec=0.0) == 0
    assert len(harbour.sent()) == len(STEPS) * len(SAMPLES) * GROUP
    apply(store)
    assert without_payload(store) == DROPPED
    assert losses(store) == COUNTED


def test_the_keeper_waits_until_a_step_has_settled(store: Path) -> None:
    assert decide(store, ERRORS_AND_EXTREMES, only_settled=True).steps == []
    compact(store)
    assert [place.step for place in decide(store, ERRORS_AND_EXTREMES, only_settled=True).steps] == [*FINISHED]


def test_a_late_score_is_shown_after_the_drop(store: Path) -> None:
    apply(store)
    (row, *_) = asked(store).trajectories(step=1, sample_index=0)
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    context = f'00-{row["trajectory_id"]}-{0:016x}-01;{{"step":1,"sample_index":0}}'
    with rolltrace.use_context(context):
        place = rolltrace.capture.scope.current.get()
        assert place is not None
        assert place._trajectory is not None
        place._trajectory.reward(7.0)
    rolltrace.shutdown()
    drain(store)
    assert asked(store).trajectory(row["trajectory_id"]).reward == 7.0
    assert (1, 0) in without_payload(store)


def test_what_was_begun_inside_goes_with_its_trajectory(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in (1, 2):
        with rolltrace.rollout_trace_attr(step=step, sample_index=1) as outer:
            think("outside")
            with rolltrace.rollout_trace_attr(step=step, name="helper"):
                think("inside")
            outer.reward(1.0)
    rolltrace.shutdown()
    drain(tmp_path)
    apply(tmp_path)
    rows = asked(tmp_path).sql("SELECT step, inputs FROM spans").rows()
    assert {row["step"] for row in rows if row["inputs"] is None} == {1}
    assert losses(tmp_path) == {1: 2}


def test_a_real_drainer_process_applies_it_to_finished_steps(tmp_path: Path) -> None:
    write_policy_file(tmp_path, '{"keep": ["errors", "extremes"]}')
    write_run(tmp_path)
    with subprocess.Popen([sys.executable, "-m", "rolltrace.keeper", str(tmp_path)]) as keeper:
        remembered = journal_folder(tmp_path) / "retention.done"
        # Counted last, when all parts of a group are pruned.
        eventually(lambda: remembered.exists() and losses(tmp_path) == COUNTED)
        keeper.kill()
    assert without_payload(tmp_path) == DROPPED


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps count as settled at once."""
    for name in ("_IDLE_SEC", "_QUIET_SEC", "_FINISHED_SEC"):
        monkeypatch.setattr(upkeep, name, 0.0)


@pytest.mark.usefixtures("hasty")
def test_the_keeper_goes_on_until_all_steps_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltrace.keeper.retention._MAX_STEPS", 1)
    write_run(tmp_path)
    write_policy(tmp_path, ERRORS_AND_EXTREMES)
    with drainer_lock(journal_folder(tmp_path)):
        follow(tmp_path, idle_sec=0.0)
    assert losses(tmp_path) == COUNTED


@pytest.mark.usefixtures("hasty")
def test_a_policy_that_cannot_be_used_keeps_everything_and_nobody_from_draining(
    tmp_path: Path, lenient: None, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(tmp_path)
    write_policy_file(tmp_path, '{"keep": ["extreme"]}')
    with drainer_lock(journal_folder(tmp_path)):
        follow(tmp_path, idle_sec=0.0)
    assert without_payload(tmp_path) == set()
    assert len(summary(tmp_path)) == len(STEPS) * len(SAMPLES) * GROUP
    assert "did you mean 'extremes'?" in caplog.text


@pytest.mark.usefixtures("hasty")
def test_killed_for_real_and_done_again_gives_the_same(store: Path) -> None:
    write_policy(store, ERRORS_AND_EXTREMES)
    chance = random.Random(1)
    for _ in range(nightly(20, 2)):
        process = subprocess.Popen([sys.executable, "-m", "rolltrace.keeper", str(store)])
        time.sleep(1.0 + 5 * chance.random())  # when it is killed is the point; nothing is asserted about time
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with drainer_lock(journal_folder(store)):
        follow(store, idle_sec=0.0)
    assert losses(store) == COUNTED
    assert without_payload(store) == DROPPED
    assert len(table_rows(store, "trajectories")) == len(STEPS) * len(SAMPLES) * GROUP


def write_policy_file(store: Path, text: str) -> None:
    store.mkdir(exist_ok=True)
    (store / "retention.json").write_text(text)
