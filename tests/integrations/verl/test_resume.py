"""The real `main_ppo` is killed and resumed from its checkpoint: every attempt at a rollout is a trajectory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import Store, Trajectory
from tests.background import eventually
from tests.nightly import nightly

from .main_run import FOLDER, NOTED, WHICH
from .parts import keys_of
from .rig import keys_with_tools, write_tools
from .tiny_model import make_model
from .training_config import training_keys
from .training_run import lines_of

pytestmark = pytest.mark.timeout(1800)  # whole trainings, one after the other
BATCH = 4
RUNS = nightly(3, 2)
STEPS = 2 * RUNS + 1
PACKAGE = "parts_of_verl_tests"


class Resumed:
    """A training whose runs but the last are killed after a checkpoint; one prompt of each batch is held."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store_folder = folder, folder / "store"
        for name, text in (("noted.py", NOTED), ("agents.yaml", "- {name: tool_agent, _target_: noted.Noted}")):
            (folder / name).write_text(text)
        write_tools(folder)
        (folder / PACKAGE).symlink_to(Path(__file__).parent)  # under a name that no package has which is installed
        model = make_model(folder / "model")
        questions = [f"add {number}{' held' * (number % BATCH == 1)}" for number in range(BATCH * (STEPS + 4))]
        self._keys = [
            *keys_of(model, "resumed", *keys_with_tools(folder, "rolltrace")),
            *training_keys(model, folder, questions),
            f"data.train_batch_size={BATCH}",
            f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH}",
            "trainer.n_gpus_per_node=1",
            "trainer.v1.trainer_mode=colocate_async",
            "trainer.v1.colocate_async.num_warmup_batches=2",
            "trainer.v1.sampler.max_off_policy_threshold=null",
            "trainer.val_before_train=False",
            "trainer.test_freq=-1",
            "trainer.save_freq=2",
            f"trainer.total_training_steps={STEPS}",
            "trainer.resume_mode=auto",
            f"trainer.default_local_dir={folder / 'checkpoints'}",
            "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
            "ray_kwargs.ray_init.num_cpus=8",
            "+ray_kwargs.ray_init.include_dashboard=False",
            f"+ray_kwargs.ray_init.object_store_memory={200 << 20}",
            f"hydra.run.dir={folder / 'hydra'}",
        ]
        for which in range(1, RUNS):
            self._run(which, until=2 * which)
        (folder / "go").touch()
        self._run(RUNS)

    def _run(self, which: int, until: int | None = None) -> None:
        """Train to the end, or until the checkpoint of this step is there."""
        checkpoint = self.folder / "checkpoints" / "latest_checkpointed_iteration.txt"
        given = {
            FOLDER: str(self.folder),
            WHICH: str(which),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")])),
            "ROLLTRACE_STORE": str(self.store_folder),
            "ROLLTRACE_DRAIN": "off",
            "ROLLTRACE_STRICT": "1",
            "VERL_FILE_LOGGER_PATH": str(self.folder / f"metrics-{which}.jsonl"),
        }
        words = [sys.executable, "-m", f"{PACKAGE}.main_run", *self._keys]
        log = self.folder / f"run-{which}.log"
        with tempfile.TemporaryDirectory(prefix="ray") as sockets, log.open("w") as output:
            words.append(f"+ray_kwargs.ray_init._temp_dir={sockets}")
            environment = {**os.environ, **given}
            environment.pop("ROLLTRACE_RUN", None)  # each is a Ray job of its own
            training = subprocess.Popen(words, env=environment, cwd=self.folder, stdout=output, stderr=output)
            try:
                if until is None:
                    assert training.wait(timeout=900) == 0, log.read_text()[-5000:]
                else:
                    eventually(lambda: _step_of(checkpoint) >= until or training.poll() is not None)
                    assert training.poll() is None, log.read_text()[-5000:]
            finally:
                _kill_all(training.pid)
                training.wait()

    @property
    def attempts(self) -> dict[tuple[Any, ...], list[int] | None]:
        """(run, uid, session) -> the response, None of one that was interrupted."""
        told = lines_of(self.folder / "attempts.jsonl")
        ended = {each["attempt"]: each["response"] for each in told if each["is_over"]}
        return {tuple(each["key"]): ended.get(each["attempt"]) for each in told if not each["is_over"]}

    @property
    def store(self) -> Store:
        return rolltrace.open(self.store_folder)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.read_text() or 0) if checkpoint.exists() else 0


def _kill_all(pid: int) -> None:
    """Kill a process and all that it has started, as a node that goes down."""
    family = [pid]
    for parent in family:
        family += _children(parent)
    for each in reversed(family):  # workers first: they would end themselves in an orderly way
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text().split())
        except OSError:
            continue


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    return Resumed(tmp_path_factory.mktemp("resumed"))


@pytest.fixture(scope="module")
def recorded_attempts(resumed: Resumed) -> dict[tuple[Any, ...], Trajectory]:
    """(run, uid, session) -> the trajectory."""
    store = resumed.store
    rows = store.trajectories(all_runs=True).rows()
    runs = {run: which for which, run in enumerate(dict.fromkeys(row["run"] for row in rows), start=1)}
    keys = [(runs[row["run"]], row["tags"]["uid"], row["rollout_n"]) for row in rows]
    assert len(set(keys)) == len(keys)
    return {key: store.trajectory(row["trajectory_id"]) for key, row in zip(keys, rows)}


def test_every_attempt_is_a_trajectory_with_what_happened_in_it(
    resumed: Resumed, recorded_attempts: dict[tuple[Any, ...], Trajectory]
) -> None:
    attempts = resumed.attempts
    again = Counter((uid, session) for _, uid, session in attempts)
    assert max(again.values()) == RUNS  # prompts in flight were issued once more, with the same uid
    assert len(attempts) >= 120
    assert attempts.keys() <= recorded_attempts.keys()
    for key in recorded_attempts.keys() - attempts.keys():  # killed before its agent loop could note that it began
        assert (recorded_attempts[key].status, recorded_attempts[key].turns) == ("interrupted", 0)
    killed_at_their_end = 0
    for key, response in attempts.items():
        found = recorded_attempts[key]
        if response is not None and found.status == "interrupted":  # killed before verl had scored it
            killed_at_their_end += 1
        elif response is None:
            assert found.status == "interrupted"
            assert found.turns <= 2
            assert found.reward is None
        else:
            *_, run = (op for op in found.walk() if op.name.endswith(".run"))
            assert found.status == "ok"
            assert next(list(each.response_ids or ()) for each in found.tokens if each.op_id == run.op_id) == response
            assert found.turns == 2
        assert "prefix_break" not in found.flags
    assert killed_at_their_end <= BATCH * RUNS  # the last run ends with rollouts in flight, too


def test_what_is_trained_goes_to_the_attempt_that_produced_it(
    resumed: Resumed, recorded_attempts: dict[tuple[Any, ...], Trajectory]
) -> None:
    responses = {(key[1], tuple(response)): key for key, response in resumed.attempts.items() if response}
    told = lines_of(resumed.folder / "trained.jsonl")
    # Steps after the checkpoint were trained twice, and what was trained then is trained again if it was restored.
    expected = {responses[row["uid"], tuple(row["response"])]: (row["step"], row["reward"]) for row in told}
    trained = {key: found for key, found in recorded_attempts.items() if found.fate == "trained"}
    assert {key: (found.trained_step, found.reward) for key, found in trained.items()} == expected
    restored = [row for row in told if row["run"] > responses[row["uid"], tuple(row["response"])][0]]
    assert restored  # finished in one run, trained in the next one
    assert resumed.store.unmatched_scores().rows() == []
