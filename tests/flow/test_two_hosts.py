"""Several hosts on one folder: whatever the interleaving, nothing is lost, doubled or sent twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.nightly import nightly

ROOT = Path(__file__).parents[2]


def test_a_host_may_be_suspended_at_any_step_of_its_work(tmp_path: Path) -> None:
    every = str(nightly(1, 50))
    stage = subprocess.run(
        [sys.executable, "-m", "tests.flow.two_hosts", str(tmp_path), every], cwd=ROOT, capture_output=True, text=True
    )
    assert stage.returncode == 0, stage.stdout + stage.stderr
    assert int(stage.stdout) >= 2
