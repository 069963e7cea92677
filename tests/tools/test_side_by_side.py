"""Lanes of make targets at once: all of them run, and any failure is the whole's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "side_by_side.py"
MAKEFILE = """
good other:
	@echo 3 passed in $@
bad:
	@echo 1 failed; exit 1
# Each waits for the other: one after the other they would never end.
here:
	@touch $@; while [ ! -e there ]; do sleep 0.01; done
there:
	@while [ ! -e here ]; do sleep 0.01; done; touch $@
"""


def run(folder: Path, *lanes: str) -> subprocess.CompletedProcess[str]:
    (folder / "Makefile").write_text(MAKEFILE)
    return subprocess.run(
        [sys.executable, str(SCRIPT), *lanes], cwd=folder, capture_output=True, text=True, check=False
    )


def test_what_each_target_says_is_printed_and_all_is_well(tmp_path: Path) -> None:
    done = run(tmp_path, "good other")
    assert done.returncode == 0
    said = done.stdout.splitlines()
    assert said[:4] == ["===== good", "3 passed in good", "===== other", "3 passed in other"]
    assert [line.rpartition(" ")[2] for line in said[4:] if line.startswith("passed after")] == ["good", "other"]


def test_one_that_fails_is_told_and_stops_no_other(tmp_path: Path) -> None:
    done = run(tmp_path, "bad good", "other")
    assert done.returncode == 1
    assert {"1 failed", "3 passed in good", "3 passed in other"} <= set(done.stdout.splitlines())
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()[-3:]] == ["failed", "passed", "passed"]


def test_lanes_run_at_once(tmp_path: Path) -> None:
    assert run(tmp_path, "here", "there").returncode == 0
