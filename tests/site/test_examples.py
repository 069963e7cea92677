"""Every example runs as it is, with nothing but the public API."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from tests.docs.pages import ROOT

pytestmark = pytest.mark.timeout(600)  # the first that asks for the demo waits for it
EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "find_the_hack.ipynb"


def run(program: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "TMPDIR": str(folder), "MPLBACKEND": "agg"}
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_an_agent_loop_of_ones_own_is_traced(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "agent_loop.py", tmp_path)
    looking = re.search(r"rolltrace view (\S+)", printed)
    assert looking is not None
    assert len(rolltrace.open(looking[1]).trajectories()) == 8
    assert "user: How far" in printed


def test_polars_alone_finds_the_term_that_is_hacked(demo: Path) -> None:
    printed = run(EXAMPLES / "offline_polars.py", demo, "rolltrace-demo")
    assert "suspicious terms of the reward: verified" in printed
    assert "calculator" in printed


def test_the_notebook_finds_the_reward_hack(demo: Path, tmp_path: Path) -> None:
    """Its cells one after the other; `make test-examples` runs it in Jupyter."""
    shutil.copytree(demo / "rolltrace-demo", tmp_path / "rolltrace-demo")  # it leaves a note there
    program = tmp_path / "notebook.py"
    program.write_text("\n".join("".join(cell["source"]) for cell in cells("code")))
    printed = run(program, tmp_path)
    assert re.search(r"rollouts, the first in step 2\d", printed)
    assert "verified verified" in printed
    assert printed.endswith("repeats 'verified' for reward\n")


def test_the_notebook_is_committed_with_its_pictures_and_without_faults() -> None:
    outputs = [output for cell in cells("code") for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", "".join("".join(cell["source"]) for cell in cells("markdown")))
    assert len(shown) == 3
    assert [name for name in shown if not (EXAMPLES / name).exists()] == []


@pytest.mark.parametrize("name", ["agent_loop.py", "offline_polars.py", "find_the_hack.ipynb"])
def test_an_example_uses_only_what_is_public(name: str) -> None:
    path = EXAMPLES / name
    text = path.read_text(encoding="utf-8")
    source = text if path.suffix == ".py" else "\n".join("".join(cell["source"]) for cell in cells("code"))
    public = {"rolltrace", "rolltrace.query", "rolltrace.backends", "rolltrace.testing", "rolltrace.errors"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rolltrace"):
            assert node.module in public
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rolltrace":
            assert node.attr in rolltrace.__all__


def test_every_example_is_tested() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert names == {"agent_loop.py", "offline_polars.py", "find_the_hack.ipynb"}


def cells(kind: str) -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]
