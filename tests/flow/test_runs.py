"""An experiment that is started again: each run is kept apart, and answers are about the newest that reached a step."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rolltrace
from rolltrace._job import of_launcher
from rolltrace.cli import main
from rolltrace.query import Store, open_store

TRAIN = """
import json, sys
import rolltrace

options = json.loads(sys.argv[1])
rolltrace.init("p", "e", store=options["store"], drain="off")

@rolltrace.rollout_trace_op
def act(text):
    return text

for step in options["steps"]:
    for sample in (0, 1):
        for n in range(4):
            with rolltrace.rollout_trace_attr(step=step, sample_index=sample, rollout_n=n) as trajectory:
                act(options["say"])
                trajectory.reward(options["reward"] + n % 2)
for step in options.get("validates", ()):
    with rolltrace.rollout_trace_attr(step=step, sample_index=0, rollout_n=0, validate=True) as trajectory:
        trajectory.reward(options["reward"])
if "late" in options:
    rolltrace.score(tuple(options["late"]), "advantage", options["reward"])
print(rolltrace.stats().records)
"""


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_RUN")


def train(store: Path, steps: list[int], say: str, *, reward: float = 0.0, **more: Any) -> None:
    options = {"store": str(store), "steps": steps, "say": say, "reward": reward, **more}
    subprocess.run([sys.executable, "-c", TRAIN, json.dumps(options)], check=True, capture_output=True)


class Printed(NamedTuple):
    stdout: str
    stderr: str


def cli(*words: object) -> Printed:
    """What a command prints, in this process: to start one for each would take most of the time of these tests."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        assert main([*map(str, words)]) == 0, stderr.getvalue()
    return Printed(stdout.getvalue(), stderr.getvalue())


def drained(store: Path) -> Store:
    cli("store", "drain", store)
    return open_store(store)


def attempts(store: Path, count: int) -> None:
    """So many runs of one script."""
    for at in range(count):
        train(store, [1], f"attempt {at}", reward=float(at))


@pytest.mark.parametrize("is_drained", [False, True])
def test_three_runs_of_one_script_are_not_mixed(tmp_path: Path, copied: Callable[..., Path], is_drained: bool) -> None:
    copied(tmp_path, attempts, 3)
    store = drained(tmp_path) if is_drained else open_store(tmp_path)
    groups = store.groups(step=1)
    assert [(row["size"], row["mean"], row["min"], row["superseded"]) for row in groups] == [(4, 2.5, 2.0, False)] * 2
    assert groups.older_runs == (16, 2)
    rows = store.trajectories()
    assert len(rows) == 8
    assert rows.older_runs == (16, 2)
    assert "16 trajectories of 2 older runs hidden" in repr(rows)
    assert len(store.trajectories(all_runs=True)) == 24
    assert [row["size"] for row in store.groups(step=1, all_runs=True)] == [4] * 6
    (step,) = store.steps().rows()
    assert (step["trajectories"], step["reward_mean"]) == (8, 2.5)
    assert len(store.compare_group(1, 0).trajectories) == 4
    (row,) = store.experiments().rows()
    assert (row["trajectories"], row["superseded"], row["runs"]) == (8, 16, 3)


def test_a_run_can_be_asked_for(tmp_path: Path, copied: Callable[..., Path]) -> None:
    copied(tmp_path, attempts, 2)
    store = open_store(tmp_path)
    first, second = store.runs().rows()
    assert (first["superseded"], second["superseded"]) == (8, 0)
    for asked in (
        store.trajectories(run=first["run"]),
        store.trajectories(where=f"run = '{first['run']}'"),
        store.trajectories(where="superseded = true"),
        store.sql("SELECT run, reward FROM trajectories WHERE superseded"),
    ):
        assert {(row["run"], row["reward"] < 2) for row in asked} == {(first["run"], True)}
        assert len(asked) == 8
    assert [row["mean"] for row in store.groups(run=first["run"])] == [0.5, 0.5]
    assert {row["run"] for row in store.groups(where=f"run = '{first['run']}'")} == {first["run"]}
    assert {row["run"] for row in store.sql("SELECT run FROM spans")} == {first["run"], second["run"]}
    with pytest.raises(rolltrace.RolltraceError, match="choose one"):
        store.trajectories(run=first["run"], all_runs=True)


def test_a_run_that_goes_on_from_a_checkpoint_repeats_only_its_own_steps(tmp_path: Path) -> None:
    train(tmp_path, [1, 2, 3, 4, 5], "first", validates=[3])
    train(tmp_path, [4, 5, 6], "second", reward=1.0, validates=[3])
    store = open_store(tmp_path)
    trained = {row["step"]: row["reward_min"] for row in store.steps() if not row["validate"]}
    assert trained == {1: 0.0, 2: 0.0, 3: 0.0, 4: 1.0, 5: 1.0, 6: 1.0}
    # It validated step 3 before it went on: that is newer, the training of step 3 is not.
    assert [row["reward_min"] for row in store.steps() if row["validate"]] == [1.0]
    assert [row["min"] for row in store.history(0) if not row["validate"]] == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert store.steps().older_runs == (17, 1)


def test_scores_by_coordinates_stay_in_their_run(tmp_path: Path) -> None:
    train(tmp_path, [1], "first", reward=10.0, late=[1, 0, 0])
    train(tmp_path, [1], "second", reward=20.0)
    store = open_store(tmp_path)
    (newest,) = store.trajectories(where="sample_index = 0 and rollout_n = 0").rows()
    (older,) = store.trajectories(where="sample_index = 0 and rollout_n = 0 and superseded = true").rows()
    assert (newest["advantage"], older["advantage"]) == (None, 10.0)
    store.score((1, 0, 0), "advantage", 7.0)
    store.score((1, 0, 0), "advantage", 8.0, run=older["run"])
    by_run = {row["run"]: row["advantage"] for row in store.trajectories(all_runs=True, sample_index=0, rollout_n=0)}
    assert by_run == {newest["run"]: 7.0, older["run"]: 8.0}


def test_scores_of_a_process_that_was_started_apart_find_the_newest_run(tmp_path: Path) -> None:
    train(tmp_path, [1], "first")
    train(tmp_path, [1], "second")
    train(tmp_path, [], "trainer", reward=5.0, late=[1, 0, 0])
    store = open_store(tmp_path)
    scored = store.trajectories(where="advantage is not null", all_runs=True).rows()
    assert [(row["superseded"], row["advantage"]) for row in scored] == [(False, 5.0)]
    assert len(store.unmatched_scores()) == 0


def test_a_score_of_a_process_that_was_started_apart_does_not_move_to_the_next_run(tmp_path: Path) -> None:
    train(tmp_path, [1], "first")
    train(tmp_path, [], "trainer", reward=5.0, late=[1, 0, 0])
    train(tmp_path, [1], "second")
    for store in (open_store(tmp_path), drained(tmp_path)):
        scored = store.trajectories(where="advantage is not null", all_runs=True).rows()
        assert [(row["superseded"], row["advantage"]) for row in scored] == [(True, 5.0)]


def test_what_has_neither_step_nor_sample_is_always_shown(tmp_path: Path) -> None:
    once = f"import rolltrace; rolltrace.init('p', 'e', store={str(tmp_path)!r}, drain='off')\n"
    once += "with rolltrace.rollout_trace_attr() as t: t.reward(1)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", once], check=True, capture_output=True)
    assert len(open_store(tmp_path).trajectories()) == 2


def test_init_and_the_environment_name_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_RUN", "from-environment")
    train(tmp_path, [1], "a")
    monkeypatch.delenv("ROLLTRACE_RUN")
    rolltrace.init("p", "e", store=tmp_path, run="from-argument")
    with rolltrace.rollout_trace_attr(step=2, sample_index=0):
        pass
    assert {row["run"] for row in open_store(tmp_path).trajectories()} == {"from-environment", "from-argument"}


def test_a_second_init_means_the_same_run_and_one_after_shutdown_another(tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        rolltrace.init("p", "e", store=tmp_path)
        first = os.environ["ROLLTRACE_RUN"]
        rolltrace.init("p", "e", store=tmp_path)
        assert os.environ["ROLLTRACE_RUN"] == first
        runs.append(first)
        rolltrace.shutdown()
        assert "ROLLTRACE_RUN" not in os.environ
    assert runs[0] != runs[1]


RANK = """
import rolltrace, sys
rolltrace.init("p", "e", store=sys.argv[1], drain="off")
with rolltrace.rollout_trace_attr(step=1, sample_index=0):
    pass
"""


def ranks(store: Path, *, environment: dict[str, str], count: int = 2) -> None:
    """Ranks that one launcher starts, each of them a process."""
    launcher = (
        "import os, subprocess, sys\n"
        f"children = [subprocess.Popen([sys.executable, '-c', {RANK!r}, {str(store)!r}], env={{**os.environ, "
        f"'RANK': str(rank), 'WORLD_SIZE': '{count}'}}) for rank in range({count})]\n"
        "sys.exit(max(child.wait() for child in children))"
    )
    subprocess.run([sys.executable, "-c", launcher], check=True, env={**os.environ, **environment})


def test_the_ranks_of_one_launcher_are_one_run_and_its_next_start_another(tmp_path: Path) -> None:
    for _ in range(2):
        ranks(tmp_path, environment={"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"})
    assert [row["trajectories"] for row in open_store(tmp_path).runs()] == [2, 2]


@pytest.mark.parametrize(
    ("environment", "run"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),  # a shell of srun --pty
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # a batch script, which has no step
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "2"}, "slurm-7.2"),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "2"}, "slurm-7.2"),
        (
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_RESTART_COUNT": "1"},
            "slurm-7.0-restart-1",
        ),
        (
            {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "job5",
             "MASTER_ADDR": "node1"},
            "torchrun-job5",
        ),
        (
            {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "job5",
             "TORCHELASTIC_RESTART_COUNT": "2", "MASTER_ADDR": "node1"},
            "torchrun-job5-restart-2",
        ),
        (
            {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none",
             "MASTER_ADDR": "node1", "SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
            "slurm-7.0",
        ),
        (
            {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none",
             "MASTER_ADDR": "node1", "MASTER_PORT": "29500"},
            "ranks-node1-29500",
        ),
    ],
)  # fmt: skip
def test_a_launcher_says_which_job_it_is(environment: dict[str, str], run: str | None) -> None:
    assert of_launcher(environment) == run


def test_the_command_line_tells_of_older_runs_and_shows_them(tmp_path: Path, copied: Callable[..., Path]) -> None:
    copied(tmp_path, attempts, 3)
    hint = "16 trajectories of 2 older runs hidden; show them with --all-runs or --run ID"
    groups = cli("groups", tmp_path, "--step", 1, "--json")
    assert [json.loads(line)["size"] for line in groups.stdout.splitlines()] == [4, 4]
    for words in (["groups"], ["ls"], ["ls", "--steps"], ["ls", "--json"], ["export", "jsonl"]):
        assert hint in cli(*words, "--store", tmp_path).stderr
    assert "12 " not in cli("groups", tmp_path).stdout
    assert cli("ls", tmp_path, "--all-runs", "--json").stdout.count("\n") == 24
    assert cli("ls", tmp_path, "--all-runs").stderr == ""
    listed = cli("ls", tmp_path, "--experiments").stdout.splitlines()
    runs = [row["run"] for row in open_store(tmp_path).runs()]
    assert [run for line in listed for run in runs if run in line] == runs
    assert listed[-1].startswith("3 runs")
    of_first = cli("ls", tmp_path, "--run", runs[0], "--json").stdout.splitlines()
    assert {json.loads(line)["reward"] for line in of_first} == {0.0, 1.0}
    assert (
        "8 trajectories of 2 older runs hidden" in cli("diff", "--step", 1, "--sample", 0, "--store", tmp_path).stderr
    )
    said = cli("sql", "select count(*) as n from trajectories", "--store", tmp_path)
    assert "24" in said.stdout
    assert "the views include all runs, and 16 trajectories of older ones" in said.stderr
    assert cli("sql", "select 1 from trajectories where not superseded", "--store", tmp_path).stderr == ""


def test_an_older_trajectory_can_be_exported_by_its_id(tmp_path: Path, copied: Callable[..., Path]) -> None:
    copied(tmp_path, attempts, 2)
    older = open_store(tmp_path).trajectories(where="superseded = true").rows()[0]["trajectory_id"]
    exported = cli("export", "jsonl", older, "--store", tmp_path).stdout
    assert json.loads(exported)["trajectory_id"] == older
