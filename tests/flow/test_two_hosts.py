"""Several hosts on one folder: whatever the interleaving, nothing is lost, doubled or sent twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flow.host import can_be_hosts
from tests.nightly import nightly

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_host_may_be_suspended_or_killed_at_any_step_of_its_work(tmp_path: Path, how: str) -> None:
    every, first = nightly(1, 1000), nightly(1, 60 if how == "stop" else 150)
    stage = subprocess.run(
        [sys.executable, "-m", "tests.flow.two_hosts", str(tmp_path), str(every), how, str(first)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert stage.returncode == 0, stage.stdout + stage.stderr
    assert int(stage.stdout) >= 1
