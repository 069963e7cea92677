"""The how-to pages are true: their examples run, with a config and an environment such as a reader would have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "docs/howto/tinker.md", ROOT / "docs/zh/howto/tinker.md"]
_BEFORE = """
import logging, sys
logging.disable(logging.INFO)
from tests.integrations.tinker.service import MessageGroup, config as made
from tests.integrations.tinker.stand_ins import END, Scripted
config = made(sys.argv[1])

class MyEnv:
    board = "..."
    def read(self, action): return str(action)
    async def initial_observation(self): return None, []
    async def step(self, action, *, extra=None): return None
"""
_AFTER = """
builders = [MessageGroup(2), MessageGroup(2)]
groups = asyncio.run(roll_out(7, builders, Scripted("hi" + END)))
assert {(row["project"], row["experiment"]) for row in store.trajectories()} == {("recipe_mixed", "log")}
found = [(row["sample_index"], row["rollout_n"]) for row in rolltrace.open().group(7, 1)]
assert found == [(1, 0), (1, 1)], found
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parts[-3])
def test_the_examples_of_the_page_run(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python tinker\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    environment = {**os.environ, "HOME": str(tmp_path), "ROLLTRACE_STRICT": "1", "ROLLTRACE_DRAIN": "off"}
    program = "\n".join([_BEFORE, *blocks, _AFTER])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "log")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "{'role': 'user', 'content': 'again'}" in done.stdout


def test_both_pages_have_the_same_examples() -> None:
    english, chinese = (
        re.findall(r"^```python tinker\n.*?^```", page.read_text(), re.DOTALL | re.MULTILINE) for page in PAGES
    )
    assert english == chinese


def test_the_doctor_says_that_it_fits() -> None:
    command = [sys.executable, "-m", "rolltrace", "doctor", "--tinker"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tinker-cookbook 0.5.8, with which this rolltrace was tested" in done.stdout
    assert "install() fits: 13 modules" in done.stdout
