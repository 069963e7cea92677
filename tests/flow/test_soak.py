"""Under a steady load the drainer's memory, its handles and the number of parts stay flat, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.background import kill_keepers
from tests.nightly import nightly

ROOT = Path(__file__).parents[2]
NIGHTLY = bool(nightly(1, 0))


@pytest.mark.timeout(1500 if NIGHTLY else 120)
def test_a_steady_run_stays_flat(tmp_path: Path) -> None:
    seconds = "1200" if NIGHTLY else "12"
    soak = subprocess.run(
        [sys.executable, "-m", "tests.flow.soak", str(tmp_path), seconds], cwd=ROOT, capture_output=True, text=True
    )
    kill_keepers(tmp_path)
    assert soak.returncode == 0, soak.stderr
    *lines, last = map(json.loads, soak.stdout.splitlines())
    assert last["stored"] == last["traced"] > 0
    assert last["ops"] == last["once"] == 4 * last["traced"]
    late = lines[5:]
    # A finished step has a part for each of four tables; the rest was merged just now, or is about to be.
    assert max(line["parts"] - 4 * line["steps"] for line in late) < 400, soak.stdout
    assert max(line["journal_files"] for line in late) < 40, soak.stdout
    handles = [line["handles"] for line in late if "handles" in line]
    assert max(handles) < 60, soak.stdout
    if NIGHTLY:
        memory = [line["memory_mb"] for line in lines if "memory_mb" in line]
        assert max(memory[5:]) < 1.6 * max(memory[:5]), soak.stdout
