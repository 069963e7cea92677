"""A store in a bucket is used as one in a folder: record, read, score, compact, delete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import BackendError, NotFoundError
from rolltrace.tables import LiveSnapshot, LiveWriter, TableStore, address_in, home_folder, read_live, write_live
from tests.integrations.bucket import rollouts
from tests.integrations.bucket.conftest import ROOT, run
from tests.integrations.bucket.faults import Proxy

Objects = Callable[[], list[str]]
COUNT = rollouts.STEPS * rollouts.SAMPLES * rollouts.ROLLOUTS


def record(address: str, experiment: str = "first", host: str = "a", **environment: str) -> dict[str, object]:
    """What a rollout process says about itself; what it recorded is in its journal."""
    program = [sys.executable, "-m", "tests.integrations.bucket.rollouts", address, experiment, host]
    done = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "ROLLTRACE_DRAIN": "off", **environment}
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def another_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From here on, be a machine that has recorded nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))


def test_what_was_recorded_is_read_on_another_machine(
    address: str, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record(address) == {"trajectories": COUNT, "loaded": [], "losses": {}}
    assert objects() == []  # the rollout process knows nothing of the bucket
    run("store", "drain", "--once", address)
    another_home(monkeypatch, tmp_path)

    with rolltrace.open(address) as store:
        assert len(store.trajectories()) == COUNT
        (row,) = store.trajectories(step=1, where="sample_index = 'a-2' and rollout_n = 1").rows()
        assert (row["reward"], row["turns"], row["tool_calls"], row["status"]) == (0.5, 2, 2, "ok")
        trajectory = store.trajectory(row["trajectory_id"])
        assert [op.name for op in trajectory.ops] == ["generate", "search"] * 2
        assert store.sql("SELECT count(*) AS n FROM messages").rows()[0]["n"] == COUNT * 5
        assert store.steps().rows()[0]["pass_rate"] == 0.5  # by the rule that `init` gave
    assert "question a-2" in run("show", row["trajectory_id"], address)
    assert address in run("stats", address, "--json")


def test_a_first_question_waits_for_what_is_in_the_journals(address: str) -> None:
    record(address)
    with rolltrace.open(address) as store:
        assert len(store.trajectories()) == COUNT


def test_a_late_score_reaches_a_step_that_is_settled(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(address)
    run("store", "drain", "--once", address)
    run("store", "compact", address)
    another_home(monkeypatch, tmp_path)
    with rolltrace.open(address) as store:
        (row,) = store.trajectories(step=1, where="sample_index = 'a-2' and rollout_n = 1").rows()
    run("label", row["trajectory_id"], "--score", "reward=0.875", address)
    run("label", row["trajectory_id"], "good", "--store", address)
    run("store", "drain", "--once", address)
    with rolltrace.open(address) as store:
        (row,) = store.trajectories(where="label = 'good'").rows()
        assert row["reward"] == 0.875
        assert len(store.trajectories()) == COUNT


def test_compaction_leaves_one_file_per_step(address: str, objects: Objects) -> None:
    for host in ("a", "b"):
        record(address, host=host)
        run("store", "drain", "--once", address)
    before = rows(address)
    run("store", "compact", address)
    assert rows(address) == before
    files = TableStore(address_in(home_folder(address))).files("trajectories")
    assert sorted(file.place.step or 0 for file in files) == [0, 1]
    assert all(file.is_settled for file in files)


def test_a_deleted_experiment_leaves_no_bytes(address: str, objects: Objects) -> None:
    record(address, "first")
    record(address, "second")
    run("store", "drain", "--once", address)
    run("store", "compact", address)
    kept = rows(address, "second")
    assert "deleted" in run("store", "rm", "--experiment", "first", "--yes", address)
    assert not [name for name in objects() if "bucket-first" in name]
    assert rows(address, "second") == kept
    with pytest.raises(NotFoundError), rolltrace.open(address) as store:
        store.check_names(experiment="first")


def test_vacuum_removes_what_no_version_has(address: str, objects: Objects) -> None:
    record(address)
    run("store", "drain", "--once", address)
    run("store", "compact", address)
    tables = TableStore(address_in(home_folder(address)))
    leftovers = [name for name in objects() if "/batch-" in name]
    assert leftovers
    for name in {path.partition("/")[0] for path in leftovers}:
        tables.table(name).vacuum(0)
    assert not [name for name in objects() if "/batch-" in name]
    assert len(rows(address)) == COUNT


def rows(address: str, experiment: str = "first") -> list[tuple[object, ...]]:
    names = ("step", "sample_index", "rollout_n", "reward", "turns", "response_tokens")
    with rolltrace.open(address) as store:
        return [tuple(row[name] for name in names) for row in store.trajectories(experiment=experiment)]


def test_a_choice_of_what_pass_means_is_shared(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(address)
    run("store", "drain", "--once", address)
    with rolltrace.open(address) as store:
        store.set_pass(threshold=0.25)
    another_home(monkeypatch, tmp_path)
    with rolltrace.open(address) as store:
        assert [each.rule.text for each in store.pass_meanings()] == ["reward >= 0.25"]
    record(address, host="b")  # of the same run: it does not choose again
    run("store", "drain", "--once", address)
    with rolltrace.open(address) as store:
        assert [each.rule.text for each in store.pass_meanings()] == ["reward >= 0.25"]


def test_what_is_running_is_seen_elsewhere(
    address: str, s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_folder(address)
    snapshot = LiveSnapshot("node-1", time.time_ns(), [LiveWriter("w", "bucket", "first")])
    write_live(home, snapshot)
    write_live(home, LiveSnapshot("node-1", time.time_ns()))  # too soon: each one is three requests
    another_home(monkeypatch, tmp_path)
    assert read_live(home_folder(address)) == [snapshot]
    with rolltrace.open(address) as store:
        assert store._engine.recording == {("bucket", "first")}


def test_the_viewer_shows_it(address: str) -> None:
    from starlette.testclient import TestClient

    from rolltrace.view import access_for, application

    record(address)
    run("store", "drain", "--once", address)
    app = application(home_folder(address), access_for("127.0.0.1", 7655, None))
    with TestClient(app, base_url="http://127.0.0.1:7655") as browser:
        assert browser.get("/api/status").json()["store_path"] == address
        (experiment,) = browser.get("/api/experiments").json()["rows"]
        assert experiment["trajectories"] == COUNT


def test_a_missing_bucket_is_named(s3: Proxy) -> None:
    with (
        pytest.raises(BackendError, match=r"s3://nowhere/at-all.*there is no such bucket"),
        rolltrace.open("s3://nowhere/at-all") as store,
    ):
        store.trajectories()
    said = run("ls", "s3://nowhere/at-all", check=False)
    assert "there is no such bucket" in said
    assert "Traceback" not in said


def test_what_is_recorded_for_a_missing_bucket_waits(moto: int, s3: Proxy) -> None:
    from tests.integrations.bucket.conftest import client

    name = f"later-{os.getpid()}"
    record(f"s3://{name}/store")
    assert "there is no such bucket" in run("store", "drain", "--once", f"s3://{name}/store", check=False)
    client(moto).create_bucket(Bucket=name)
    assert len(rows(f"s3://{name}/store")) == COUNT


def test_a_folder_cannot_pretend_to_be_a_bucket(tmp_path: Path, s3: Proxy, address: str) -> None:
    """A store that somebody sends must not make us write elsewhere."""
    (tmp_path / "address.json").write_text(json.dumps({"url": address}))
    assert address_in(tmp_path).folder == tmp_path
