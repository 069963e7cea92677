"""The whole path: workers, drainer, sender and Weave, each a process of its own, and each of them killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.weave.calls import call_id
from rolltrace.keeper.pending import Report, reports
from rolltrace.query import Trajectory
from tests.background import eventually, kill_keepers

from .conftest import WeaveServer, run_workers, start_hanging
from .reading import assert_same, scores_in, trajectories_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store that is drained and sent by itself."""
    monkeypatch.setenv("ROLLTRACE_BACKEND", "weave")
    monkeypatch.setenv("ROLLTRACE_DRAIN", "process")
    monkeypatch.delenv("ROLLTRACE_STRICT")  # a launcher may be killed too
    path = tmp_path / "store"
    path.mkdir()
    yield path
    kill_keepers(path)


def report(store: Path) -> Report:
    """How sending to Weave goes; before it begins, as if nothing had been."""
    found = reports(rolltrace.open(store))
    return found[0] if found else Report(backend="weave", routed=0, at_work=False, policy={})


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "rolltrace.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_sent(store: Path, count: int) -> bool:
    told = report(store)
    return told.sent >= count and told.pending == 0


def finished(store: Path) -> list[Trajectory]:
    return trajectories_of(rolltrace.open(store))


def rewards(trajectories: list[Trajectory]) -> dict[str, Any]:
    return {
        call_id(each.trajectory_id): {"reward": {"value": each.reward, "terms": each.scores[-1]["terms"]}}
        if each.scores
        else {}
        for each in trajectories
    }


def test_what_workers_trace_is_in_weave_soon_after(store: Path, client: Any) -> None:
    ended = run_workers(store, 3, 6)
    eventually(lambda: all_sent(store, 18))
    trajectories = finished(store)
    assert {each.trajectory_id for each in trajectories} == set(ended)
    assert_same(client, trajectories)
    assert scores_in(client) == rewards(trajectories)
    assert report(store).refused == 0


def test_nothing_is_lost_or_doubled_when_everybody_is_killed(
    store: Path, own_server: WeaveServer, project: str, client: Any
) -> None:
    own_server.start(batches_to_live=2)  # the second batch is taken and not answered
    hanging, ids = start_hanging(store, 3)
    eventually(lambda: own_server.is_dead() or report(store).sent == 3)
    ids += run_workers(store, 2, 4)
    eventually(own_server.is_dead)
    hanging.kill()
    hanging.communicate()
    eventually(lambda: kill_keepers(store))
    own_server.start()
    ids += run_workers(store, 1, 1)  # whoever writes next sees to it that all is sent
    eventually(lambda: all_sent(store, len(ids)))
    trajectories = finished(store)
    assert {each.trajectory_id for each in trajectories} == set(ids)
    assert_same(client, trajectories)
    assert scores_in(client) == rewards(trajectories)


def test_a_wrong_key_is_shown_and_the_right_one_goes_on(
    store: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = os.environ["WANDB_API_KEY"]
    monkeypatch.setenv("WANDB_API_KEY", "wrong")
    run_workers(store, 1, 2)
    eventually(lambda: report(store).stopped)
    assert "check WANDB_API_KEY" in str(report(store).stopped)
    assert "check WANDB_API_KEY" in run("stats", str(store))
    monkeypatch.setenv("WANDB_API_KEY", right)
    run("sync", str(store), "--to", "weave")
    assert_same(client, finished(store))


def test_what_is_over_the_budget_is_counted_and_can_be_sent_later(
    store: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("sync", str(store), "--to", "weave", "--max-bytes-per-day", "10KiB", "--save")
    run_workers(store, 2, 8)
    eventually(lambda: report(store).sent and report(store).pending == 0)
    told = report(store)
    assert 0 < told.held_back == 16 - told.sent
    assert told.bytes_today > 10_000
    roots = list(client.get_calls(filter={"trace_roots_only": True}))
    assert len(roots) == told.sent

    trajectories = finished(store)
    chosen = [each for each in trajectories if each.step == 1]
    assert f"would send {len(chosen) - sum(root.attributes['step'] == 1 for root in roots)} traj" in run(
        "sync", str(store), "--to", "weave", "--where", "step = 1", "--dry-run"
    )
    run("sync", str(store), "--to", "weave")
    assert_same(client, trajectories)
    assert scores_in(client) == rewards(trajectories)
    assert (report(store).held_back, report(store).sent) == (0, 16)


def test_only_what_the_filter_finds_is_sent_by_itself(store: Path, client: Any) -> None:
    run("sync", str(store), "--to", "weave", "--where", "reward >= 0.5", "--save")
    run_workers(store, 1, 8)
    eventually(lambda: all_sent(store, 3))
    found = {root.attributes["trajectory_id"] for root in client.get_calls(filter={"trace_roots_only": True})}
    assert found == {each.trajectory_id for each in finished(store) if (each.reward or 0) >= 0.5}
    assert report(store).held_back == 5
