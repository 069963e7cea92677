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


MANAGED = """
import sys
from pathlib import Path
from verl.protocol import pad_dataproto_to_divisor
from parts_of_verl_tests import parts, rig
from parts_of_verl_tests.session import session
from parts_of_verl_tests.tiny_model import make_model

folder = Path(sys.argv[1])
with session(folder, folder / "store", parts, rig):
    made = rig.Rig(folder, make_model(folder / "model"))
    manager = made.manager(made.config("managed", backend="null"))
    manager.generate_sequences(parts.batch_of(["hi", "look", "ho"], n=2))
    validation, _ = pad_dataproto_to_divisor(parts.batch_of(["a", "b", "c"], validate=True), 2)
    manager.generate_sequences(validation)
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


def test_a_batch_of_the_older_trainer_is_known_as_a_whole_without_a_key_in_the_config(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(MANAGED)
    (tmp_path / "parts_of_verl_tests").symlink_to(Path(__file__).parent)
    words = ["run", "--store", str(tmp_path / "store"), str(script), str(tmp_path)]
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "ROLLTRACE_DRAIN": "off", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-m", "rolltrace", *words], env=environment, check=True, timeout=400)
    rows = open_store(tmp_path / "store").trajectories().rows()
    trained = [(row["sample_index"], row["rollout_n"]) for row in rows if not row["validate"]]
    assert sorted(trained) == [(sample, number) for sample in range(3) for number in range(2)]  # split over two workers
    validated = [(row["sample_index"], row["fate_reason"]) for row in rows if row["validate"]]
    assert sorted(validated, key=str) == [(0, "padding of the batch"), (0, None), (1, None), (2, None)]
