"""Several hosts share a folder that is shipped to a lake: whatever the interleaving, nothing is lost or doubled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltrace
from rolltrace.keeper.shipped import remove_shipped
from rolltrace.lake import LakeAddress, LakePosition, Shipper, kinds
from rolltrace.lake.objects import Objects
from rolltrace.lake.tables import LakeTable
from rolltrace.record import SCORES
from rolltrace.store import (
    Partition,
    Superseded,
    compact,
    list_parts,
    prepare,
    remove_replaced,
    replace_parts,
    table_of,
    visible_parts,
    write_part,
)
from tests.background import eventually, kill_keepers
from tests.flow.host import can_be_hosts, command, interleavings
from tests.integrations.lake.answers import trajectories, values_in
from tests.integrations.lake.faults import Proxy
from tests.nightly import nightly

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")


@pytest.mark.timeout(nightly(7200, 300))
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_host_may_be_suspended_or_killed_at_any_step_of_shipping(tmp_path: Path, how: str) -> None:
    every, first = nightly(4, 160), nightly(1, 130 if how == "stop" else 90)
    assert interleavings("tests.integrations.lake.two_hosts", tmp_path, every, how, first) >= 2


_RUN = """
import sys
import rolltrace
rolltrace.init("lake", "shared", backend=["rolltrace", "lake"], run="one", quiet=True)
for sample in range(4):
    with rolltrace.rollout_trace_attr(step=1, sample_index=sample, rollout_n=int(sys.argv[1])) as trajectory:
        trajectory.reward(0.5)
rolltrace.shutdown()
"""


def test_one_host_at_a_time_ships_what_all_have_brought(tmp_path: Path, s3: Proxy, lake: str) -> None:
    store = tmp_path / "store"
    settings = {"ROLLTRACE_STORE": str(store), "ROLLTRACE_LAKE": lake, "ROLLTRACE_DRAIN": "process"}

    def shown() -> list[str]:
        try:
            with rolltrace.open(lake) as opened:
                return trajectories(opened)
        except rolltrace.RolltraceError:  # not there yet
            return []

    try:
        for number, host in enumerate(("alpha", "beta")):
            run = command(host, "-c", _RUN, str(number))
            subprocess.run(run, check=True, cwd=ROOT, env={**os.environ, **settings})
        eventually(lambda: len(shown()) == 8)
    finally:
        kill_keepers(store)
    uploads = [path for method, path in s3.requests if method == "PUT" and "/project" in path]
    assert len(uploads) == len(set(uploads))


STEP = Partition("p", "e", 1)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A store of two hosts, with two finished steps."""
    store = tmp_path / "store"
    prepare(store)
    (store / "journal" / "elsewhere").mkdir(parents=True)
    for step in (1, 2):
        write(store, step, "ab")
    return store


def write(store: Path, step: int, sources: str) -> None:
    for source in sources:
        row = {"trajectory_id": f"{step}{source}", "name": "reward", "value": 1.0, "time_ns": 1}
        partition = Partition("p", "e", step)
        write_part(store, partition, SCORES, source, [{**partition._asdict(), "validate": False, **row}])


def ship(store: Path, lake: Path) -> None:
    shipper = Shipper(store, LakeAddress.of(lake))
    while shipper.round().parts:
        pass


def scores(store: Path) -> list[str]:
    with rolltrace.open(store) as opened:
        return sorted(row["trajectory_id"] for row in opened.sql("SELECT trajectory_id FROM scores"))


_OTHER_HOST = """
import sys
from pathlib import Path
from rolltrace.lake import LakeAddress, Shipper
from rolltrace.store import compact
store, lake = map(Path, sys.argv[1:])
compact(store)  # it has looked for claims before there were any
shipper = Shipper(store, LakeAddress.of(lake))
while shipper.round().parts:
    pass
"""


@pytest.mark.parametrize(
    "suspended_at",
    [(LakePosition, "claim"), (Objects, "put_file"), (LakeTable, "commit")],
    ids=["claim", "put", "commit"],
)
def test_what_another_host_has_merged_and_shipped_meanwhile_is_not_added_again(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suspended_at: tuple[type, str]
) -> None:
    owner, name = suspended_at
    real, lake, is_first = getattr(owner, name), tmp_path / "lake", True

    def go_on_elsewhere() -> None:
        subprocess.run(command("beta", "-c", _OTHER_HOST, str(shared), str(lake)), check=True, cwd=ROOT)

    def suspended(*args: Any, **options: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            go_on_elsewhere()
        return real(*args, **options)

    monkeypatch.setattr(owner, name, suspended)
    Shipper(shared, LakeAddress.of(lake)).round()
    assert not is_first
    go_on_elsewhere()
    assert scores(lake) == values_in(lake, "scores", "trajectory_id") == ["1a", "1b", "2a", "2b"]


def test_a_host_that_merges_late_does_not_bring_back_what_was_shipped_and_removed(shared: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ship(shared, lake)
    parts = visible_parts(STEP.folder(shared))
    rows = [part.read_bytes() for part in parts]
    assert remove_shipped(shared, 1).parts == 2
    assert scores(shared) == ["2a", "2b"]
    for part, content in zip(parts, rows, strict=True):  # as a host sees them that looked before
        part.write_bytes(content)
    with pytest.raises(Superseded):
        replace_parts(shared, STEP, SCORES, parts, _rows(parts))
    assert scores(shared) == ["2a", "2b"]
    ship(shared, lake)
    assert scores(lake) == values_in(lake, "scores", "trajectory_id") == ["1a", "1b", "2a", "2b"]


def _rows(parts: list[Path]) -> pa.Table:
    return pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts])


def test_what_comes_late_to_a_removed_step_is_merged_and_shipped_by_itself(shared: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ship(shared, lake)
    remove_shipped(shared, 1)
    remove_replaced(shared, grace_sec=0)
    write(shared, 1, "cd")
    compact(shared, kind_of=kinds(shared))
    remove_replaced(shared, grace_sec=0)
    assert len([part for part in list_parts(shared) if table_of(part) == SCORES.name]) == 2
    ship(shared, lake)
    assert scores(shared) == ["1c", "1d", "2a", "2b"]
    assert scores(lake) == values_in(lake, "scores", "trajectory_id") == ["1a", "1b", "1c", "1d", "2a", "2b"]
