"""Everything that is recorded comes into the lake once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rolltrace
from rolltrace.store import list_parts
from tests.background import eventually, kill_keepers
from tests.integrations.lake.answers import assert_same, trajectories
from tests.integrations.lake.conftest import cli, record
from tests.integrations.lake.faults import Proxy
from tests.nightly import nightly

Copy = Callable[..., Path]


def parts_of(store: Path) -> list[Path]:
    return sorted((store / "data").rglob("*.parquet"))


def assert_byte_for_byte(store: Path, lake: Path) -> None:
    """Every part of the store is in the lake as the file it is."""
    shipped = {file.read_bytes() for file in lake.rglob("*.parquet") if "_delta_log" not in file.parts}
    assert {file.read_bytes() for file in list_parts(store)} <= shipped


def test_a_folder_can_be_a_lake(copy_of: Copy, tmp_path: Path) -> None:
    store, lake = copy_of(), tmp_path / "lake"
    assert "shipped" in cli("ship", store, "--to", lake)
    assert_byte_for_byte(store, lake)
    assert_same(store, str(lake))
    assert cli("ship", store, "--to", lake) == "nothing was left to ship\n"
    assert_same(store, str(lake))


def test_a_lake_on_object_storage_answers_as_the_store_does(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_a_store_that_grows_is_shipped_again_and_nothing_twice(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    record(store, "first", steps=2, samples=3, first=4)
    cli("drain", store)
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_what_is_merged_and_pruned_here_takes_the_place_of_what_was_there(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    cli("compact", store)
    cli("prune", store, "--where", "step = 2", "--yes")
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_a_forgotten_position_doubles_nothing(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    subprocess.run(["rm", "-r", str(store / "outbox")], check=True)
    assert cli("ship", store, "--to", lake) == "nothing was left to ship\n"
    subprocess.run(["rm", "-r", str(store / "outbox")], check=True)
    cli("compact", store)
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_a_copy_of_the_store_ships_nothing_again(copy_of: Copy, s3: Proxy, lake: str) -> None:
    cli("ship", copy_of("one"), "--to", lake)
    assert json.loads(cli("ship", copy_of("other"), "--to", lake, "--json"))["parts"] == 0


@pytest.mark.parametrize("fault", ["500", "503", "timeout", "lost"])
def test_object_storage_that_fails_delays_and_loses_nothing(copy_of: Copy, s3: Proxy, lake: str, fault: str) -> None:
    store, chance = copy_of(), random.Random(fault)
    share = 0.03 if fault == "timeout" else 0.25
    s3.plan = lambda method, path: fault if chance.random() < share else None
    for _ in range(20):
        said = cli("ship", store, "--to", lake, check=False)
        if "nothing was left" in said or "shipped" in said:
            break
    s3.plan = lambda method, path: None
    cli("ship", store, "--to", lake)
    assert s3.faults[fault]
    assert_same(store, lake)


def test_a_commit_whose_answer_is_lost_counts_once(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    s3.plan = lambda method, path: (
        "lost" if method == "PUT" and "_delta_log" in path and path.endswith("1.json") else None
    )
    cli("ship", store, "--to", lake, check=False)
    assert s3.faults["lost"]
    s3.plan = lambda method, path: None
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_a_shipper_that_is_killed_at_any_point_goes_on(copy_of: Copy, s3: Proxy, lake: str) -> None:
    """Killed at the n-th request, for many n, each time at the moment before or after the storage has done it."""
    store, at = copy_of(), 0
    process: subprocess.Popen[bytes] | None = None

    def kill_now(method: str, path: str) -> str | None:
        nonlocal count
        count += 1
        if count >= at and process is not None:
            process.kill()
            return chance.choice(["lost", "500"])
        return None

    chance = random.Random(4)
    for at in range(3, 240, nightly(5, 19)):  # noqa: B007 - kill_now reads it
        count, s3.plan = 0, kill_now
        process = subprocess.Popen([sys.executable, "-m", "rolltrace", "ship", str(store), "--to", lake],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        code = process.wait()
        process = None
        if code != -signal.SIGKILL:
            break
    s3.plan = lambda method, path: None
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_hosts_that_ship_at_once_need_no_lock(s3: Proxy, lake: str, tmp_path: Path) -> None:
    def host(number: int) -> Path:
        store = tmp_path / f"host{number}"
        script = (
            f"hostname node-{number}; {sys.executable} -m tests.integrations.lake.node {store} shared 0 2 2;"
            f"{sys.executable} -m rolltrace ship {store} --to {lake}"
        )
        subprocess.run(["unshare", "--uts", "sh", "-ec", script], check=True, capture_output=True)
        return store

    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(host, range(4)))
    recorded = sorted(each for store in stores for each in trajectories(rolltrace.open(store)))
    with rolltrace.open(lake) as shown:
        assert trajectories(shown) == recorded
        assert shown.sql("SELECT count(*) AS n FROM spans").rows() == [{"n": 6 * len(recorded)}]
        workers = {row["worker"] for row in shown.sql("SELECT DISTINCT worker FROM trajectories")}
        assert len(workers) == 4


@pytest.fixture
def traced(tmp_path: Path, s3: Proxy, lake: str) -> Iterator[dict[str, str]]:
    """The environment of a run whose keeper ships."""
    settings = {"ROLLTRACE_STORE": str(tmp_path / "store"), "ROLLTRACE_LAKE": lake, "ROLLTRACE_DRAIN": "process"}
    yield {**os.environ, **settings}
    kill_keepers(tmp_path / "store")


_RUN = """
import rolltrace
rolltrace.init("lake", "live", backend=["rolltrace", "lake"], quiet=True)
for sample in range(8):
    with rolltrace.rollout_trace_attr(step=1, sample_index=sample, rollout_n=0) as trajectory:
        trajectory.reward(0.5)
rolltrace.shutdown()
"""


def shown_in(lake: str) -> list[str]:
    try:
        with rolltrace.open(lake) as opened:
            return trajectories(opened)
    except rolltrace.RolltraceError:  # not there yet
        return []


def test_the_keeper_ships_by_itself_and_after_it_was_killed(
    traced: dict[str, str], s3: Proxy, lake: str, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-c", _RUN], check=True, env=traced)
    eventually(lambda: len(shown_in(lake)) == 8)
    kill_keepers(tmp_path / "store")
    s3.plan = lambda method, path: "503"
    subprocess.run([sys.executable, "-c", _RUN], check=True, env=traced)
    eventually(lambda: s3.faults["503"])
    kill_keepers(tmp_path / "store")
    s3.plan = lambda method, path: None
    subprocess.run([sys.executable, "-c", _RUN], check=True, env=traced)
    eventually(lambda: len(shown_in(lake)) == 24)
    assert_same(tmp_path / "store", lake)


def test_what_keeps_it_from_shipping_is_told(traced: dict[str, str], tmp_path: Path) -> None:
    traced["ROLLTRACE_LAKE"] = "s3://nowhere/traces"
    subprocess.run([sys.executable, "-c", _RUN], check=True, env=traced)
    eventually(lambda: "no such bucket" in cli("stats", tmp_path / "store", check=False))
    assert "no such bucket" in cli("doctor", tmp_path / "store", check=False)


def test_parts_that_were_shipped_can_be_removed(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    with rolltrace.open(store) as before:
        recorded = trajectories(before)
    assert "no lake has" in cli("retain", store, "--shipped", "--now", "--yes")
    cli("ship", store, "--to", lake)
    assert "would remove" in cli("retain", store, "--shipped", "--dry-run")
    cli("retain", store, "--shipped", "--now", "--yes")
    left = {path.parent.name for path in parts_of(store)}
    assert left == {"step=3", "step=1", "step=none"}  # the last ones of each experiment, and what belongs to no step
    record(store, "first", steps=1, samples=2)  # late: the same step again
    cli("drain", store)
    cli("ship", store, "--to", lake)
    with rolltrace.open(lake) as shown:
        assert set(recorded) < set(trajectories(shown))
        assert len(trajectories(shown)) == len(recorded) + 4
