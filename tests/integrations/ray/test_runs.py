"""Real Ray: the driver and the workers of one job are one run, and the next start of the script is another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.query import open_store

DRIVER = """
import sys, tempfile
import ray, rolltrace

store, order = sys.argv[1:]

@ray.remote
def rollout(n):
    import rolltrace
    rolltrace.init("p", "e", store=store, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=0, rollout_n=n):
        pass

with tempfile.TemporaryDirectory(prefix="ray") as sockets:
    cluster = dict(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
                   _temp_dir=sockets)
    if order == "ray first":
        ray.init(**cluster)
    rolltrace.init("p", "e", store=store, drain="off")
    if order == "rolltrace first":
        ray.init(**cluster)
    with rolltrace.rollout_trace_attr(step=1, sample_index=1, rollout_n=0):
        pass
    ray.get([rollout.remote(n) for n in range(4)])
    ray.shutdown()
"""


@pytest.mark.parametrize("order", ["ray first", "rolltrace first"])
def test_a_ray_job_is_a_run(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_RUN")
    settings = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path), order], check=True, env={**os.environ, **settings})
    runs = open_store(tmp_path).runs().rows()
    assert [row["trajectories"] for row in runs] == [5, 5]
    assert [row["superseded"] for row in runs] == [5, 0]
    assert all(row["run"].startswith("ray-") == (order == "ray first") for row in runs)
