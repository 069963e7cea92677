"""A store that somebody made up to do harm: nothing hangs, grows, reads or writes outside it, and the files are named.

Every attack of `hostile_store.CRAFTED` is tried on a good store, and then every command that reads and every endpoint
of the viewer is asked, in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltrace
from tests.draining import drain
from tests.flow.hostile_store import CRAFTED, SECRET, TOGETHER
from tests.nightly import NIGHTLY

MOST_MB = 1500
"""Loaded libraries take some 300 of it; a bomb of 1.6 GB or a sparse file of 16 GB does not fit."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


class Good(NamedTuple):
    """A store with nothing wrong, and trajectories of it."""

    store: Path
    ids: list[str]


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> dict[str, str]:
    return {"found": query}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    """Two steps, drained."""
    store = tmp_path_factory.mktemp("hostile") / "store"
    ids = []
    for step in (0, 1):
        rolltrace.init("p", "e", "rolltrace", store=store, quiet=True, drain="off")
        for sample in range(2):
            with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=0) as trajectory:
                search(f"question {sample}")
                trajectory.reward(float(sample))
            ids.append(trajectory.id)
        rolltrace.shutdown()
    drain(store)
    return Good(store, ids)


def state_of(folder: Path) -> dict[str, Any]:
    return {str(path): path.lstat().st_mtime_ns for path in sorted(folder.rglob("*"))} | {"": folder.stat().st_mtime_ns}


def folder_outside(beside: Path) -> Path:
    """A folder beside the store, with a secret in it."""
    outside = beside / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    pq.write_table(pa.table({"trajectory_id": [SECRET], "name": [SECRET]}), outside / "secret.parquet")
    return outside


@pytest.mark.parametrize("attacks", [(name,) for name in CRAFTED] if NIGHTLY else TOGETHER.values(), ids="-".join)
@pytest.mark.timeout(600)
def test_a_store_that_means_harm_does_none(attacks: tuple[str, ...], good: Good, tmp_path: Path) -> None:
    store = Path(shutil.copytree(good.store, tmp_path / "store"))
    outside = folder_outside(tmp_path)
    named = [CRAFTED[attack](store, outside) for attack in attacks]
    before = state_of(outside)

    command = [sys.executable, "-m", "tests.flow.hostile_store", str(store), *good.ids]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert asked.returncode == 0, asked.stderr[-3000:]
    report = json.loads(asked.stdout.splitlines()[-1])

    for name, each in report["commands"].items():
        assert each["code"] in (0, 1, 3), (name, each)  # 3: some of it could not be read
        assert "Traceback" not in each["err"], (name, each["err"])
        assert not _CONTROL.search(each["out"] + each["err"]), (name, each)
        assert SECRET not in each["out"] + each["err"], name
    for name, each in report["endpoints"].items():
        assert each["status"] in (200, 400, 404, 503), (name, each)
        assert SECRET not in each["text"], name
    assert state_of(outside) == before
    assert report["peak_mb"] < MOST_MB
    doctor = report["commands"]["doctor"]
    if os.geteuid() == 0 and "unreadable_files" in attacks:  # root reads them
        named.pop()
    for each in named:
        assert each in doctor["out"] + doctor["err"], doctor
    if "pipe_as_version" not in attacks:  # which makes it no store of a version that we know
        assert good.ids[-1][:8] in report["commands"]["ls"]["out"], report["commands"]["ls"]


def test_a_good_store_answers_every_question(good: Good, tmp_path: Path) -> None:
    """Which also shows that nothing is wrong with the questions."""
    store = Path(shutil.copytree(good.store, tmp_path / "store"))
    command = [sys.executable, "-m", "tests.flow.hostile_store", str(store), *good.ids]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    report = json.loads(asked.stdout.splitlines()[-1])
    failed = {name: each for name, each in report["commands"].items() if each["code"] != 0}
    assert failed == {}
    missing = {"/api/blob/{hash}", "/api/trajectory/{trajectory_id}/message/{index}"}
    assert {name for name, each in report["endpoints"].items() if each["status"] != 200} <= missing
