"""verl's own tests of its tracing pass with the plug-in installed, as they do without.

They are in verl's repository and in no package: `VERL_SOURCE=/path/to/verl make test-integrations` runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = os.environ.get("VERL_SOURCE")


def run(folder: Path, plugins: str) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    tests = Path(SOURCE or "") / "tests/utils/test_rollout_trace_on_cpu.py"
    (folder / tests.name).write_text(tests.read_text())
    environment = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": plugins}
    command = [sys.executable, "-m", "pytest", "-q", tests.name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, re.sub(r" in .*", "", done.stdout.rstrip().rpartition("\n")[2])


@pytest.mark.skipif(SOURCE is None, reason="VERL_SOURCE is not set: a checkout of verl's repository")
def test_they_pass_as_without_the_plug_in(tmp_path: Path) -> None:
    code, summary = run(tmp_path, "auto")
    assert (code, summary) == (0, run(tmp_path, "none")[1])
