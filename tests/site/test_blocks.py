"""The Python examples of the pages run as somebody pastes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks_of, name_of

COOKBOOK = ROOT / "docs" / "howto" / "cookbook.md"  # run by test_cookbook.py
PYTHON = [
    (page, block) for page in PAGES if page != COOKBOOK for block in blocks_of(page) if block.language == "python"
]


@pytest.mark.timeout(600)  # the first that asks for the demo waits for it
@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[f"{name_of(page)}:{block.line}" for page, block in PYTHON])
def test_an_example_runs_alone_as_pasted(
    page: Path, block: Block, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue("demo") if "rolltrace-demo" in block.text else tmp_path
    environment = {"HOME": str(tmp_path), "ROLLTRACE_STRICT": "1", "ROLLTRACE_QUIET": "1", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "error", "-c", block.text]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
