"""`import rolltrace` in a training script loads next to nothing."""

import subprocess
import sys

import pytest

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
    import rolltrace

    assert all(hasattr(rolltrace, name) for name in rolltrace.__all__)
    assert isinstance(rolltrace.__version__, str)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        rolltrace.missing  # noqa: B018
