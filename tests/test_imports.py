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


def test_a_listing_loads_neither_pandas_nor_the_drainer(tmp_path: Path) -> None:
    """Arrow loads pandas, where it is installed, to look at any Python list: a quarter of a second for nothing."""
    rolltrace.init("p", "e", store=tmp_path, drain="off", quiet=True)
    with rolltrace.rollout_trace_attr(sample_index=1, step=1):
        pass
    rolltrace.shutdown()
    drain(tmp_path)
    code = "import sys; from rolltrace.cli import main; main(['ls', sys.argv[1]]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    *_, modules = done.stdout.splitlines()
    assert "rolltrace.query.engine" in modules.split()
    assert {"pandas", "rolltrace.drain.drainer"} & set(modules.split()) == set()
