"""`rolltrace run` with real verl: traced although neither the program nor its config says a word about tracing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.query import open_store

PROGRAM = """
import asyncio
from verl.utils.rollout_trace import RolloutTraceConfig, rollout_trace_attr, rollout_trace_op

class Loop:
    @rollout_trace_op
    async def think(self, number):
        return number + 1

async def main():
    with rollout_trace_attr(sample_index=1, step=2, rollout_n=0):
        await Loop().think(3)

RolloutTraceConfig.init("verl-project", "verl-experiment", BACKEND)
asyncio.run(main())
"""


@pytest.mark.parametrize("backend", [None, "rolltrace"])
def test_verl_is_traced_by_rolltrace_run(tmp_path: Path, backend: str | None) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("BACKEND", repr(backend)))
    words = ["run", "--store", str(tmp_path / "store"), str(script)]
    environment = {**os.environ, "ROLLTRACE_DRAIN": "off"}
    subprocess.run([sys.executable, "-m", "rolltrace", *words], env=environment, check=True, timeout=200)
    (row,) = open_store(tmp_path / "store").trajectories().rows()
    assert (row["project"], row["experiment"]) == ("verl-project", "verl-experiment")
    assert (row["step"], row["sample_index"], row["rollout_n"]) == (2, 1, 0)


def test_without_it_a_config_that_asks_for_nothing_records_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("BACKEND", "None"))
    environment = {**os.environ, "ROLLTRACE_STORE": str(tmp_path / "store")}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=200)
    assert not (tmp_path / "store").exists()
