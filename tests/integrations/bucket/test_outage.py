"""Object storage fails in many ways, and drainers are killed: nothing is lost, nothing is there twice."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest

import rolltrace
from rolltrace.tables import home_folder
from tests.draining import compact
from tests.integrations.bucket.conftest import ROOT, run
from tests.integrations.bucket.faults import Fault, Proxy
from tests.integrations.bucket.test_store import COUNT, record

TABLES_WITH_ROWS = {
    "trajectories": COUNT,
    "ops": COUNT * 4,
    "tokens": COUNT * 2,
    "messages": COUNT * 5,
    "scores": COUNT,
}


def check(address: str, times: int = 1) -> None:
    """Everything is there, once."""
    compact(home_folder(address))
    with rolltrace.open(address) as store:
        counts = {name: store.sql(f"SELECT count(*) AS n FROM {name}").rows()[0]["n"] for name in TABLES_WITH_ROWS}
        assert counts == {name: count * times for name, count in TABLES_WITH_ROWS.items()}
        assert store.sql("SELECT count(DISTINCT op_id) AS n FROM ops").rows()[0]["n"] == COUNT * 4 * times


@pytest.mark.parametrize("fault", ["500", "503", "timeout", "lost"])
def test_a_request_that_fails_now_and_then_costs_nothing(address: str, s3: Proxy, fault: str) -> None:
    record(address)
    logs, files = itertools.count(1), itertools.count(1)

    def plan(method: str, path: str) -> Fault:
        if method != "PUT":
            return None
        return fault if next(logs if "/_delta_log/" in path else files) in (2, 6) else None

    s3.plan = plan
    for _ in range(5):
        said = run("store", "drain", "--once", address, check=False, **s3.environment)
        if not said:
            break
    assert not said
    assert s3.faults[fault]
    check(address)


@pytest.mark.parametrize("fault", ["503", "lost"])
def test_an_outage_delays_and_whoever_asks_is_told(address: str, s3: Proxy, fault: str) -> None:
    record(address)
    s3.plan = lambda method, path: fault
    for words in (("store", "drain", "--once"), ("ls",)):
        said = run(*words, address, check=False, **s3.environment)
        assert f"the store '{address}'" in said
        assert "Traceback" not in said
    check(address)


def test_a_drainer_that_meets_an_outage_goes_on_afterwards(address: str, s3: Proxy) -> None:
    s3.plan = lambda method, path: "503" if method == "PUT" and "/_delta_log/" in path else None
    record(address)
    drainer = start_drainer(address, s3)
    try:
        while s3.faults["503"] < 6:
            assert drainer.poll() is None
            time.sleep(0.05)
        s3.plan = lambda method, path: None
        with rolltrace.open(address) as store:  # waits for that drainer
            assert len(store.trajectories()) == COUNT
        assert drainer.poll() is None
    finally:
        drainer.kill()
        drainer.wait()
    check(address)


@pytest.mark.parametrize("after", [3, 12, 17])
def test_a_drainer_that_is_killed_leaves_nothing_out_and_nothing_twice(address: str, s3: Proxy, after: int) -> None:
    """It is killed while one of its requests is on the way, which arrives."""
    record(address)
    numbers = itertools.count(1)
    drainers: list[subprocess.Popen[bytes]] = []

    def plan(method: str, path: str) -> Fault:
        if method == "PUT" and next(numbers) == after:
            os.kill(drainers[0].pid, signal.SIGKILL)
            return "lost"
        return None

    s3.plan = plan
    drainers.append(start_drainer(address, s3, "--once"))
    assert drainers[0].wait() == -signal.SIGKILL
    record(address, host="b")
    run("store", "drain", "--once", address)
    check(address, times=2)


def start_drainer(address: str, s3: Proxy, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rolltrace.keeper", str(home_folder(address)), *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **s3.environment})
