"""A lake is merged and swept beside hosts that ship to it, and answers stay the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import rolltrace
from rolltrace.lake import LakeAddress
from rolltrace.lake.tables import TABLE_NAMES, LakeTable
from tests.integrations.lake.answers import assert_same, trajectories
from tests.integrations.lake.conftest import cli, record
from tests.integrations.lake.faults import Proxy

Copy = Callable[..., Path]


def active(lake: str) -> set[str]:
    parts = set()
    for name in TABLE_NAMES:
        table = LakeTable(LakeAddress.of(lake), name)
        table.refresh()
        parts |= {f"{name}/{path}" for path in table.active()}
    return parts


def test_a_merged_lake_has_fewer_parts_and_the_same_answers(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    before = active(lake)
    cli("lake", "compact", lake, "--all")
    assert len(active(lake)) < len(before)
    assert_same(store, lake)
    cli("lake", "vacuum", lake, "--older-than", "0s", "--force")
    assert_same(store, lake)
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_a_merged_lake_is_listed_without_its_parts(copy_of: Copy, s3: Proxy, lake: str, tmp_path: Path) -> None:
    cli("ship", copy_of(), "--to", lake)
    cli("lake", "compact", lake, "--all")
    s3.requests.clear()
    assert "trajectories" in cli("ls", lake, ROLLTRACE_CACHE=str(tmp_path / "elsewhere"))
    fetched = [path for method, path in s3.requests if method == "GET" and "/spans/project" in path]
    assert fetched == []


def test_what_a_host_has_merged_after_the_lake_did_is_not_added_again(copy_of: Copy, s3: Proxy, lake: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    cli("lake", "compact", lake, "--all")
    cli("compact", store)
    cli("ship", store, "--to", lake)
    assert_same(store, lake)


def test_payloads_that_a_host_prunes_after_the_lake_has_merged_them_go_with_the_next_merging(
    copy_of: Copy, s3: Proxy, lake: str
) -> None:
    store = copy_of()
    cli("ship", store, "--to", lake)
    cli("lake", "compact", lake, "--all")
    cli("prune", store, "--where", "step = 2", "--yes")
    cli("ship", store, "--to", lake)
    cli("lake", "compact", lake, "--all")
    assert_same(store, lake)


def test_hosts_ship_while_the_lake_is_merged_and_swept(s3: Proxy, lake: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    record(store, "beside", steps=2, samples=2)
    cli("ship", store, "--to", lake)
    merging = "\n".join([f"rolltrace lake compact {lake} --all", f"rolltrace lake vacuum {lake} --older-than 1h"] * 2)
    script = merging.replace("rolltrace ", f"{sys.executable} -m rolltrace ")
    beside = subprocess.Popen(["sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for number in range(1, 4):
        record(store, "beside", steps=1, samples=2, first=2 * number)
        cli("drain", store)
        if number % 2:
            cli("compact", store)
        cli("ship", store, "--to", lake)
    assert beside.wait() == 0, beside.stdout.read() if beside.stdout else ""
    cli("lake", "compact", lake, "--all")
    with rolltrace.open(store) as here, rolltrace.open(lake) as there:
        assert trajectories(there) == trajectories(here)
    assert_same(store, lake)
