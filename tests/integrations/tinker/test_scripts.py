"""Training scripts in processes of their own: with a pool of workers, with rolltrace before all imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .native import told_by_store, told_by_summary
from .test_training import Ran, read

ROOT = Path(__file__).parents[3]


def script(folder: Path, *words: str) -> Ran:
    """Run the training script, with no more than a store in its environment."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")},
        "ROLLTRACE_STORE": str(folder / "store"),
        "ROLLTRACE_DRAIN": "off",
        "ROLLTRACE_STRICT": "1",
        "PYTHONWARNINGS": "ignore",
    }
    module = "tests.integrations.tinker.training_run"
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder / "log"), *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "recording recipe_mixed / log" in done.stderr
    return read(folder / "store", folder / "log")


@pytest.fixture(scope="module", params=["0 first", "2 after"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return script(tmp_path_factory.mktemp("script"), *request.param.split())


def test_a_script_that_only_installs_records_all_that_is_trained(ran: Ran) -> None:
    native = {(line["iteration"], line["group_idx"], line["traj_idx"]): line for line in ran.trained}
    ours = {(each.step, each.sample_index, each.rollout_n): each for each in ran.training}
    assert len(ours) == len(ran.training)
    assert {key: told_by_store(each) for key, each in ours.items()} == {
        key: told_by_summary(line) for key, line in native.items()
    }
    assert {each.fate for each in ran.training} == {"trained"}
    assert all(each.advantage is not None and each.trained_step == each.step for each in ran.training)


def test_its_evaluations_are_there_too(ran: Ran) -> None:
    ours = Counter((each.step, each.sample_index) for each in ran.validation)
    assert ours == Counter((line["iteration"], f"test/{line['group_idx']}") for line in ran.evaluated)


_RECIPE = """
import asyncio, sys
from tinker_cookbook.rl import train
from tests.integrations.tinker.service import config
asyncio.run(train.main(config(sys.argv[1])))
"""


def test_a_script_that_knows_nothing_of_rolltrace_is_recorded_by_rolltrace_run(tmp_path: Path) -> None:
    store, log, file = tmp_path / "store", tmp_path / "log", tmp_path / "recipe.py"
    file.write_text(_RECIPE)
    command = [
        sys.executable,
        "-m",
        "rolltrace",
        "run",
        "--experiment",
        "owned",
        "--store",
        str(store),
        str(file),
        str(log),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "ROLLTRACE_STRICT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-4000:]
    ran = read(store, log)
    assert {each.experiment for each in ran.recorded} == {"owned"}
    ours = Counter((each.step, told_by_store(each)) for each in ran.training)
    assert ours == Counter((line["iteration"], told_by_summary(line)) for line in ran.trained)
