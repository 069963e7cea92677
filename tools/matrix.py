"""Run the tests on other Pythons, and with the oldest dependencies that pyproject.toml allows: `make test-matrix`.

    python tools/matrix.py 3.10 3.12 oldest [-- PYTEST ARGUMENTS]

Each has an environment of its own in `.venvs/python-NAME`, made once for what is installed in it. `oldest` is the
Python that runs this, with the lowest version of each direct dependency. A Python that is missing here is an error:
a matrix with a hole in it would look green.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = "oldest"


def main(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, pytest_arguments = arguments[:at], arguments[at + 1 :]
    failed = []
    for name in names:
        python = _environment(name)
        print(f"== {name}: {_version(python)}", flush=True)
        command = [str(python), "-m", "pytest", *(pytest_arguments or ["-n", "auto", "--dist", "worksteal", "-q"])]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed on: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def oldest_dependencies(pyproject: str) -> list[str]:
    """The direct dependencies, each in the lowest version that is allowed: `duckdb>=1.2` becomes `duckdb~=1.2.0`.

    >>> oldest_dependencies('dependencies = [\\n    "duckdb>=1.2",\\n    "xxhash>=3.4",\\n]')
    ['duckdb~=1.2.0', 'xxhash~=3.4.0']
    """
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", pyproject, re.DOTALL | re.MULTILINE)
    lowest = re.findall(r'"([\w.-]+)>=([\d.]+)', listed)
    return [f"{name}~={version}{'.0' * max(0, 2 - version.count('.'))}" for name, version in lowest]


def _environment(name: str) -> Path:
    pyproject = (ROOT / "pyproject.toml").read_text()
    exact = oldest_dependencies(pyproject) if name == OLDEST else []
    folder = ROOT / ".venvs" / f"python-{name}"
    python, stamp = folder / "bin" / "python", folder / ".made-of"
    made_of = hashlib.sha256("\n".join([pyproject, *exact]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != made_of:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([interpreter(name), "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, "--editable", ".", "--group", "test", *exact], cwd=ROOT, check=True)
        stamp.write_text(made_of)
    return python


def interpreter(name: str) -> str:
    if name == OLDEST:
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python"))
    for candidate in (*map(str, reversed(installed)), f"python{name}"):
        if shutil.which(candidate) and _version(Path(candidate)).startswith(f"Python {name}."):
            return candidate
    raise SystemExit(
        f"there is no Python {name} on this machine; install it, or name others: make MATRIX=3.12 test-matrix"
    )


def _version(python: Path) -> str:
    done = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
