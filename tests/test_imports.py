"""`import rolltrace` in a training script loads next to nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from tests.draining import drain

LOADED = """
import sys
import rolltrace
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    made = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    return set(made.stdout.split())


@pytest.mark.parametrize(
    "heavy",
    [
        "asyncio", "attrs", "cloudpickle", "duckdb", "email", "http", "importlib.metadata", "mlflow",
        "msgpack", "multiprocessing", "numpy", "omegaconf", "opentelemetry", "pandas", "PIL", "polars",
        "pyarrow", "pydantic", "ray", "rolltrace.cli", "rolltrace.testing", "rolltrace.view", "sqlite3", "ssl",
        "starlette", "tempfile", "tokenizers", "torch", "trackio", "transformers", "unittest", "urllib.request",
        "uvicorn", "verl", "weave", "yaml", "zipfile",
    ],
)  # fmt: skip
def test_importing_rolltrace_does_not_load(heavy: str, loaded: set[str]) -> None:
    assert "rolltrace" in loaded
    assert heavy not in loaded


def test_the_public_names_are_there() -> None:
    assert all(hasattr(rolltrace, name) for name in rolltrace.__all__)
    assert isinstance(rolltrace.__version__, str)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        rolltrace.missing  # noqa: B018


@pytest.mark.parametrize("command", ["ls", "ls --steps", "ls --experiments", "groups --step 1", "show"])
def test_looking_at_a_store_loads_neither_columns_nor_the_drainer(command: str, tmp_path: Path) -> None:
    """Each of them takes longer to load than the answer takes."""
    rolltrace.init("p", "e", store=tmp_path, drain="off", quiet=True)
    with rolltrace.rollout_trace_attr(sample_index=1, step=1) as handle:
        pass
    rolltrace.shutdown()
    drain(tmp_path)
    code = "import sys; from rolltrace.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    words = [*command.split(), *([handle.trajectory_id] if command == "show" else []), "--store", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    *_, modules = done.stdout.splitlines()
    assert "rolltrace.query.engine" in modules.split()
    heavy = {"numpy", "pandas", "pyarrow", "rolltrace.capture", "rolltrace.drain.drainer"}
    assert heavy & set(modules.split()) == set()


def test_what_a_program_records_as_it_exits_is_kept(tmp_path: Path) -> None:
    """Its handler is registered after the import, so it runs before ours, whenever tracing was turned on."""
    code = """
import atexit, sys
import rolltrace

def at_the_end():
    with rolltrace.rollout_trace_attr(sample_index=1, step=1):
        pass

atexit.register(at_the_end)
rolltrace.init("p", "e", store=sys.argv[1], drain="off", quiet=True)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert len(rolltrace.open(tmp_path).trajectories(step=1)) == 1
