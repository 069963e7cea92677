"""tools/matrix.py: other Pythons, and the oldest dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_oldest_of_every_direct_dependency_is_meant() -> None:
    sys.path.insert(0, str(ROOT))
    from tools.matrix import oldest_dependencies

    pyproject = 'dependencies = [\n    "duckdb>=1.2",\n    "msgspec>=0.19.1",\n]\n[other]\nx = [\n    "mlflow>=3",\n]\n'
    assert oldest_dependencies(pyproject) == ["duckdb~=1.2.0", "msgspec~=0.19.1"]
    real = oldest_dependencies((ROOT / "pyproject.toml").read_text())
    assert {"duckdb", "msgspec", "pyarrow", "xxhash"} <= {each.partition("~=")[0] for each in real}


def test_a_python_that_is_not_here_is_an_error() -> None:
    command = [sys.executable, str(ROOT / "tools" / "matrix.py"), "3.99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no Python 3.99 on this machine" in done.stderr
