"""verl's own tests come out with the plug-in installed as they do without.

Those of its agent loops and tools are in the package that verl 0.9.1 was released as. Those of its tracing are only in
its repository: in a checkout that `VERL_SOURCE` names or, where that is not set, in the release that GitHub gives.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPOSITORY = "https://github.com/verl-project/verl"
TAG = "v0.9.0"
"""0.9.1 has none; nothing in its tracing differs."""
TRACE_TESTS = "tests/utils/test_rollout_trace_on_cpu.py"
VERSION = "0.9.1"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources that verl was released as."""
    folder = tmp_path_factory.mktemp("package")
    load = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "verl", f"verl=={VERSION}"]
    subprocess.run(load, cwd=folder, check=True)
    with tarfile.open(folder / f"verl-{VERSION}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / f"verl-{VERSION}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("VERL_SOURCE")
    if named:
        return Path(named)
    folder = tmp_path_factory.mktemp("checkout")
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", TAG, REPOSITORY, str(folder)]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(clone, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"no verl at hand ({done.stderr.strip()[-200:]}): set VERL_SOURCE to a checkout of {TAG}")
    return folder


def outcomes(folder: Path, tests: list[Path], plugins: str) -> dict[str, str]:
    """Run in a folder of its own, which has nothing of verl but these tests: test -> passed, failed or skipped."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    environment = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": plugins}
    command = [sys.executable, "-m", "pytest", "-q", "--junit-xml=found.xml", "-c", "pytest.ini", *map(str, tests)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (folder / "found.xml").exists(), done.stdout + done.stderr
    cases = ElementTree.parse(folder / "found.xml").iter("testcase")
    return {
        f"{case.get('classname')}.{case.get('name')}": next((child.tag for child in case), "passed") for case in cases
    }


def test_those_of_agent_loops_and_tools(package: Path, tmp_path: Path) -> None:
    tests = sorted(package.glob("tests/experimental/agent_loop/*_on_cpu.py"))
    tests += sorted(package.glob("tests/tools/*_on_cpu.py"))
    found = outcomes(tmp_path / "with", tests, "auto")
    assert found == outcomes(tmp_path / "without", tests, "none")
    assert Counter(found.values())["passed"] > 60  # a few need a vLLM


def test_those_of_tracing(checkout: Path, tmp_path: Path) -> None:
    tests = [checkout / TRACE_TESTS]
    found = outcomes(tmp_path / "with", tests, "auto")
    assert found == outcomes(tmp_path / "without", tests, "none")
    assert set(found.values()) <= {"passed", "skipped"}  # two need an account
    assert Counter(found.values())["passed"] >= 10
