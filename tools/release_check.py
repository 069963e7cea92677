"""Whether this checkout can be released: `make release-check`, `python tools/release_check.py [PYTHON ...]`.

Builds the wheel and the source archive, looks into them, installs the wheel into an empty environment of every Python
named and runs the demo there, as whoever installs it would. Prints sizes and the time that an import takes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))

from matrix import interpreter  # noqa: E402 - beside this file

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
IN_WHEEL = (
    "rolltrace/view/static/index.html", "rolltrace/py.typed", "rolltrace/demo/tokenizer.json",
    "rolltrace/_docs/index.md", "rolltrace/_docs/reference/cli.md",
)  # fmt: skip
IN_SDIST = (
    "src/rolltrace/view/static/index.html", "tests/conftest.py", "docs/index.md", "examples/find_the_hack.ipynb",
    "mkdocs.yml", "LICENSE", "CHANGELOG.md", "README.md", "Makefile",
)  # fmt: skip
_IMPORT = "import time; t = time.perf_counter(); import rolltrace; print((time.perf_counter() - t) * 1000)"


def main(pythons: list[str]) -> None:
    version = version_of((ROOT / "pyproject.toml").read_text())
    check_changelog((ROOT / "CHANGELOG.md").read_text(), version)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        wheel, sdist = build(folder)
        check_contents(wheel, sdist, version)
        print(f"{wheel.name}: {size(wheel)}; {sdist.name}: {size(sdist)}", flush=True)
        print("python   install   import   demo of 2 steps")
        for name in pythons:
            try_out(name, wheel, folder)
    print(f"rolltrace {version} can be released")


def version_of(pyproject: str) -> str:
    (version,) = re.findall(r'^version = "([^"]+)"', pyproject, re.MULTILINE)
    return str(version)


def check_changelog(changelog: str, version: str) -> None:
    if f"\n## {version}" not in changelog:
        raise SystemExit(f"CHANGELOG.md has no section '## {version}': name the newest section so")


def build(folder: Path) -> tuple[Path, Path]:
    environment = folder / "build"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "build"], check=True)
    subprocess.run(
        [python, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)], check=True, stdout=subprocess.DEVNULL
    )
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path, version: str) -> None:
    """The viewer, the docs and what else does not come by itself; and nothing that does not belong there."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_WHEEL if name not in names] + [name for name in IN_SDIST if name not in packed]
    if not any(name.startswith("rolltrace/view/static/assets/") and name.endswith(".js") for name in names):
        missing.append("the scripts of the viewer")
    stray = [
        name for name in (*names, *packed) if re.search(r"__pycache__|node_modules|\.venv|(^|/)site/|\.parquet$", name)
    ]
    stray = [name for name in stray if not name.startswith(("tests/", "tools/"))]
    if missing or stray or version not in wheel.name:
        raise SystemExit(f"missing: {missing}; does not belong there: {stray[:10]}; version {version} in {wheel.name}")


def try_out(name: str, wheel: Path, folder: Path) -> None:
    """Install it into an empty environment and run the demo; print how long it took."""
    environment = folder / f"python-{name}"
    subprocess.run([interpreter(name), "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("ROLLTRACE_", "PYTHON"))}
    started = time.monotonic()
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, env=plain)
    installed = time.monotonic() - started
    demo = [str(environment / "bin" / "rolltrace"), "demo", "--steps", "2", "--no-view", "--store"]
    run([*demo, f"first-{name}"], plain, folder)  # the first run compiles modules
    started = time.monotonic()
    printed = run([*demo, f"again-{name}"], plain, folder)
    took = time.monotonic() - started
    if ", 0 lost" not in printed:
        raise SystemExit(f"the demo on Python {name} lost records:\n{printed}")
    imported = min(float(run([python, "-c", _IMPORT], plain, folder)) for _ in range(5))
    print(f"{name:6}   {installed:5.0f} s   {imported:3.0f} ms   {took:5.1f} s", flush=True)


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise SystemExit(
            f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout


def size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.2f} MB"


if __name__ == "__main__":
    main(sys.argv[1:] or list(PYTHONS))
