"""Several hosts record into one store at once: a bucket, or a folder that they share. Nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import rolltrace
from rolltrace.tables import TableStore, address_in, compact_place, home_folder, moving_places
from tests.background import kill_keepers
from tests.flow.host import can_be_hosts, command
from tests.integrations.bucket.conftest import ROOT
from tests.integrations.bucket.faults import Proxy

pytestmark = pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
HOSTS = ("alpha", "beta", "gamma", "delta")
SECONDS = 3


@pytest.fixture(params=["bucket", "folder"])
def shared(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> str:
    return address if request.param == "bucket" else str(tmp_path / "shared")


def test_four_hosts_at_once(shared: str, s3: Proxy, tmp_path: Path) -> None:
    environments = {
        host: {
            **os.environ,
            "HOME": str(tmp_path / host),
            "ROLLTRACE_DRAIN": "process",
            "ROLLTRACE_STORE_TIMEOUT": "20",
        }
        for host in HOSTS
    }
    recording = [
        subprocess.Popen(
            command(host, "-m", "tests.integrations.bucket.rollouts", shared, "hosts", host, str(SECONDS)),
            cwd=ROOT, stdout=subprocess.PIPE, env=environment,
        )
        for host, environment in environments.items()
    ]  # fmt: skip
    try:
        answers = [json.loads(process.communicate()[0]) for process in recording]
        for host, environment in environments.items():
            drain = command(host, "-m", "rolltrace", "store", "drain", "--once", shared)
            subprocess.run(drain, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    finally:
        homes = (
            ["shared"]
            if "://" not in shared
            else [f"{host}/.rolltrace-remote/{home_folder(shared).name}" for host in HOSTS]
        )
        for home in homes:
            kill_keepers(tmp_path / home)
    count = sum(answer["trajectories"] for answer in answers)
    assert not any(answer["losses"] for answer in answers)
    for _ in range(2):  # as they are, and settled
        with rolltrace.open(shared) as store:
            rows = store.sql(
                "SELECT count(*) AS rows, count(DISTINCT trajectory_id) AS ids, sum(turns) AS turns FROM trajectories"
            ).rows()
            ops = store.sql("SELECT count(*) AS rows, count(DISTINCT op_id) AS ids FROM ops").rows()
        assert rows == [{"rows": count, "ids": count, "turns": 2 * count}]
        assert ops == [{"rows": 4 * count, "ids": 4 * count}]
        tables = TableStore(address_in(home_folder(shared)))
        for place in moving_places(tables):
            compact_place(tables, place)
