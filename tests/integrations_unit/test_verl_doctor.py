"""`rolltrace doctor --verl`, and what a rollout is told, where verl or the plug-in is not as it should be.

The verl here is a stand-in that can be broken in many ways; the real ones are asked in the integration tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

LOADING = """
from importlib.metadata import entry_points
for point in entry_points(group="verl.plugins"):
    try:
        point.load()
    except Exception:
        pass  # as verl does
"""
TRACE = """
class RolloutTraceConfig:
    @classmethod
    def init(cls, {arguments}):
        print("verl's own init")

    @classmethod
    def reset(cls): ...

def rollout_trace_op(func):
    return func

def rollout_trace_attr(step=None): ...
"""
AGENT_LOOP = """
from verl.utils.rollout_trace import rollout_trace_op

def auto_await(func):
    return func

class AgentLoopBase: ...

class AgentLoopWorker:
    async def generate_sequences(self, batch): ...
    async def _run_agent_loop(self, sampling_params, trajectory): ...
    async def _compute_score(self, outputs): ...

class AgentLoopManager:
    async def generate_sequences(self, prompts): ...
"""
ARGUMENTS = "project_name, experiment_name, backend, token2text=False"
BROKEN = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "rolltrace.integrations.verl.trainer":
            raise ImportError("a part of it is gone")
sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def verl(tmp_path: Path) -> Callable[..., Path]:
    """Make a verl; what is given takes the place of a file of it."""

    def make(version: str = "0.9.1", *, files: Mapping[str, str] = MappingProxyType({})) -> Path:
        written = {
            "verl/__init__.py": LOADING,
            "verl/utils/__init__.py": "",
            "verl/utils/rollout_trace.py": TRACE.format(arguments=ARGUMENTS),
            "verl/experimental/__init__.py": "",
            "verl/experimental/agent_loop/__init__.py": "",
            "verl/experimental/agent_loop/agent_loop.py": AGENT_LOOP,
            f"verl-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: verl\nVersion: {version}\n",
            **files,
        }
        for name, text in written.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def doctor(folder: Path, **variables: str) -> tuple[int, list[dict[str, Any]]]:
    done = run(folder, "-m", "rolltrace.cli", "doctor", "--verl", "--json", **variables)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_all_is_well(verl: Callable[..., Path]) -> None:
    code, found = doctor(verl())
    assert code == 0
    assert [each["what"] for each in found] == [
        "verl 0.9.1, with which this rolltrace was tested",
        "verl loads the plug-in; 2 of its modules are traced",
    ]


def test_a_version_that_nobody_has_tried(verl: Callable[..., Path]) -> None:
    code, found = doctor(verl("1.0.0"))
    assert code == 1
    assert [each["level"] for each in found] == ["problem", "ok"]
    assert "verl 1.0.0 was not tested" in found[0]["what"]
    assert found[0]["do"] == "pip install 'verl==0.9.1'"


def test_a_verl_that_differs_names_what_is_not_traced(verl: Callable[..., Path]) -> None:
    other = AGENT_LOOP.replace("_compute_score", "_judge")
    code, found = doctor(verl(files={"verl/experimental/agent_loop/agent_loop.py": other}))
    assert code == 1
    assert "agent_loop cannot be traced: AttributeError" in found[-1]["what"]
    assert "_compute_score" in found[-1]["what"]


def test_a_plug_in_that_cannot_load_says_why(verl: Callable[..., Path]) -> None:
    code, found = doctor(verl(files={"sitecustomize.py": BROKEN}))
    assert code == 1
    assert found[-1]["what"] == "verl did not load the plug-in: ImportError: a part of it is gone"
    assert "pip install --force-reinstall rolltrace" in found[-1]["do"]


def test_a_verl_that_loads_no_plug_ins(verl: Callable[..., Path]) -> None:
    code, found = doctor(verl(), VERL_USE_EXTERNAL_PLUGINS="none")
    assert (code, found[-1]["do"]) == (1, "unset VERL_USE_EXTERNAL_PLUGINS, here and on every node of Ray")


def test_a_verl_that_cannot_be_imported(verl: Callable[..., Path]) -> None:
    code, found = doctor(verl(files={"verl/__init__.py": "import nothing_of_this_name"}))
    assert code == 1
    assert "No module named 'nothing_of_this_name'" in found[-1]["what"]


def test_no_verl(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    assert (code, found[0]["what"]) == (1, "verl is not installed for this Python")


INIT = "from verl.utils.rollout_trace import RolloutTraceConfig; RolloutTraceConfig.init('p', 'e', {backend!r})"


def test_where_nothing_can_be_traced_whoever_asks_for_it_learns_that(verl: Callable[..., Path]) -> None:
    folder = verl("1.0.0", files={"verl/utils/rollout_trace.py": TRACE.format(arguments="*args, **kwargs")})
    done = run(folder, "-c", INIT.format(backend="rolltrace+mlflow"))
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert "BackendError: trace.backend=rolltrace+mlflow cannot work: verl.utils.rollout_trace is not as in" in said
    assert "1.0.0 was not tested" in said


@pytest.mark.parametrize("backend", ["mlflow", None])
def test_there_all_other_backends_are_verls_business(verl: Callable[..., Path], backend: str | None) -> None:
    folder = verl("1.0.0", files={"verl/utils/rollout_trace.py": TRACE.format(arguments="*args, **kwargs")})
    done = run(folder, "-c", INIT.format(backend=backend))
    assert (done.returncode, done.stdout, done.stderr) == (0, "verl's own init\n", "")


def test_rolltraces_own_init_warns_of_a_plug_in_that_did_not_load(verl: Callable[..., Path], tmp_path: Path) -> None:
    folder = verl(files={"sitecustomize.py": BROKEN})
    code = f"import verl, rolltrace; rolltrace.init('p', 'e', 'rolltrace', store={str(tmp_path / 'store')!r})"
    assert "has not loaded rolltrace's plug-in; see: rolltrace doctor --verl" in run(folder, "-c", code).stderr
