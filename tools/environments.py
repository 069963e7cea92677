"""Environments with the real frameworks and vendors, for `make test-integrations`.

    python tools/environments.py NAME...

What is third parties' is installed once per machine, in a cache, under a name with a digest of what it is made of. It
is there whole or not at all, and never changed. `.venvs/NAME` is a layer over it that belongs to this checkout and has
nothing but rolltrace in it, so several checkouts can be tested at once. ROLLTRACE_CI_CACHE names another cache.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
_DIGEST = 12
UNUSED_DAYS = 30
"""After so long an environment is removed from the cache."""


@dataclass(frozen=True)
class Environment:
    """What is installed, and how."""

    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    """Packages that come without those that they depend on."""
    extra: str = ""
    """An extra of rolltrace that is needed too."""
    kind: Literal["tests", "server", "folder", "node"] = "tests"
    """Rolltrace and its tests run in it; or it is a vendor's server; or a folder to come first in PYTHONPATH; or a
    folder with packages of Node's."""
    python: str = field(default="", repr=False)
    """The Python that it needs, if an older one may run this; where there is none, the environment is left out."""


ENVIRONMENTS = {
    # What verl's agent loops need on a CPU, without its engines, in the versions that it was tested with; torch and Ray
    # are tested with there too. This very torch has a CPU build; a newer one would bring several GB of CUDA packages.
    "verl": Environment(
        (
            "torch==2.13.0", "ray==2.60.0", "tensordict==0.10.0", "transformers==5.10.4", "TransferQueue==0.1.11",
            "mlflow-skinny==3.17.2", "cachetools", "codetiming", "datasets", "fastapi", "hydra-core", "omegaconf",
            "packaging", "peft", "pillow", "pydantic", "torchdata", "uvicorn",
        ),
        alone=("verl==0.9.1",),
        extra="mlflow",
    ),
    # Its own service is stood in for by the tests; torch as above.
    "tinker": Environment(("torch==2.13.0", "tinker-cookbook[multiplayer-rl]==0.5.8")),
    # A tiny model is really trained, on the CPU; torch as above.
    "trl": Environment(
        ("torch==2.13.0", "trl==1.16.0", "transformers==5.22.2", "accelerate==1.15.0", "datasets==5.2.0", "jmespath")
    ),
    # Without torch: its renderers need a tokenizer only.
    "verifiers": Environment(("verifiers==0.4.0", "transformers==5.22.2")),
    # SDKs that call models. LiteLLM takes no OpenAI 3: that one is tested with in the tests' own environment.
    "agents": Environment(
        (
            "openai==2.54.0", "anthropic==2.8.0", "litellm==1.106.2", "langchain==1.4.7", "langgraph==1.2.22",
            "langchain-openai==1.7.3", "langchain-anthropic==1.7.7", "openai-agents==0.20.0",
        ),
    ),
    "claude-code": Environment(("@anthropic-ai/claude-code@2.1.197",), kind="node"),  # a black box, offline
    "codex": Environment(("@openai/codex@0.169.0",), kind="node"),  # another one
    "weave": Environment(("weave==0.54.0",)),  # rolltrace needs nothing of it; the tests read back with its client
    # The last release that has the server in it, and what the server needs besides.
    "weave-server": Environment(
        (
            "weave==0.52.42", "clickhouse-connect", "emoji", "fastapi", "numpy", "python-multipart", "redis",
            "sqlparse", "uvicorn",
        ),
        kind="server",
    ),
    "mlflow": Environment(("mlflow==3.17.2", "opentelemetry-proto", "playwright")),
    "phoenix": Environment(("arize-phoenix==20.26.1",), kind="server"),
    "trackio": Environment(("trackio==0.43.0",)),
    # The viewer behind Jupyter's own proxy, in a browser.
    "jupyter": Environment(("jupyter-server==2.21.1", "jupyter-server-proxy==4.6.0", "playwright")),
    "langfuse": Environment(("langfuse==5.0.4",)),
    "bucket": Environment(("moto[server]==5.2.5", "boto3==1.44.3")),  # a store on object storage
    # What writes the files that are imported, as far as it runs on a CPU and without a network; torch as above.
    "importers": Environment(
        ("torch==2.13.0", "inspect-ai==0.3.285", "mini-swe-agent==2.4.6", "openpipe-art==0.5.18"),
    ),
    # Writes what agents did as ATIF. It runs no trial here, which needs containers.
    "harbor": Environment(("harbor==0.24.0",), kind="server", python="3.12"),
    # Instrumentations that send spans, each by its own people.
    "collect": Environment(
        (
            "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http",
            "openinference-instrumentation-openai==0.1.66",
            "opentelemetry-instrumentation-openai==0.62.4", "opentelemetry-instrumentation-genai-openai==1.3b0",
            "pydantic-ai-slim[openai]==2.66.0", "openai", "anthropic>=2.9",
        ),
    ),
    # Engines that read the tables without rolltrace. Spark needs a Java besides (`make .venvs/java`).
    "engines": Environment(("chdb==4.4.0", "clickhouse-connect==1.12.0", "lz4", "pyspark==4.0.5", "zstandard")),
    # DuckDB downloads its extensions; of some releases they are packages too.
    "duckdb-delta": Environment(("duckdb==1.5.5", "duckdb-extension-delta==1.5.5"), kind="server"),
}  # fmt: skip

RELEASED = ("trl-", "verl-")
"""How the names of environments with another release of a framework begin."""
_BESIDE = {
    # Before 1.7 it reads tool calls only with transformers before 5.13.
    "trl-1.5.0": ("transformers==5.10.4", "huggingface-hub==1.33.0", "tokenizers==0.22.2"),
}
"""What such a release needs in another version, too."""
_RELEASES = " or ".join(f"{start}RELEASE" for start in RELEASED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"{', '.join(ENVIRONMENTS)}, {_RELEASES}")
    names = parser.parse_args().names
    for name in names:
        if name not in ENVIRONMENTS and not name.startswith(RELEASED):
            parser.error(f"no environment {name}; there are {', '.join(ENVIRONMENTS)}, {_RELEASES}")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    (ROOT / ".venvs").mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # they wait for downloads and for the disk
        for _ in pool.map(lambda name: make(name, cache), names):
            pass
    remove_unused(cache)


def environment_of(name: str) -> Environment:
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    # Another release and nothing else: it comes before the other one in PYTHONPATH, and all else is shared.
    package, _, release = name.partition("-")
    return Environment(alone=(f"{package}=={release}", *_BESIDE.get(name, ())), kind="folder")


def cache_folder() -> Path:
    folder = os.environ.get("ROLLTRACE_CI_CACHE")
    return Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rolltrace-ci"


def make(name: str, cache: Path) -> None:
    """See to it that `.venvs/NAME` is there and as it should be."""
    environment = environment_of(name)
    if interpreter(environment) is None:
        sys.stderr.write(f"{name}: left out, since there is no python{environment.python} here\n")
        return
    cached = cache / f"{name}-{digest(environment)}"
    with locked(cache / f"{name}.lock"):
        if not (cached / ".ready").exists():
            shutil.rmtree(cached, ignore_errors=True)
            install(environment, cached)
        (cached / ".ready").touch()  # last, so that an interrupted installation is done again
    own = ROOT / ".venvs" / name
    with locked(own.with_name(f"{name}.lock")):
        if environment.kind == "tests":
            put_over(cached, own)
        elif not own.is_symlink() or own.readlink() != cached:
            remove(own)
            own.symlink_to(cached)


def digest(environment: Environment) -> str:
    """Changes with all that an environment is made of."""
    described = [repr(environment), sys.version, sys.base_prefix]
    if environment.python:
        described.append(environment.python)
    if environment.kind == "tests":
        described.append(dependencies())
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:_DIGEST]


def interpreter(environment: Environment) -> str | None:
    """What runs it: the Python that runs this, if it is new enough."""
    wanted = environment.python
    if not wanted or sys.version_info >= tuple(map(int, wanted.split("."))):
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{wanted}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{wanted}")


def dependencies() -> str:
    """The lines of pyproject.toml about rolltrace's own dependencies and those of its tests. (3.10 has no tomllib.)"""
    text = (ROOT / "pyproject.toml").read_text()
    _, _, run = text.partition("\ndependencies = [")
    _, _, test = text.partition("\n[dependency-groups]")
    counted = re.sub(
        r"\n[^\n]*# no environment takes it from here(?=\n)", "", run.partition("[project.entry-points")[0]
    )
    return counted + test.partition("\ndev = [")[0]


def install(environment: Environment, cached: Path) -> None:
    """Install into the cache what is third parties'."""
    started = time.monotonic()
    if environment.kind == "node":
        cached.mkdir()
        subprocess.run(["npm", "install", "--silent", "--prefix", str(cached), *environment.packages], check=True)
    elif environment.kind == "folder":
        pip(Path(sys.executable), "--no-deps", "--target", str(cached), *environment.alone)
    else:
        subprocess.run([str(interpreter(environment)), "-m", "venv", str(cached)], check=True)
        python = cached / "bin" / "python"
        pip(python, "--upgrade", "pip>=25.1")
        ours = environment.kind == "tests"
        checkout = f"{ROOT}[{environment.extra}]" if environment.extra else str(ROOT)
        us = (checkout, "--group", "test", "hatchling", "editables") if ours else ()
        pip(python, *environment.packages, *us)
        if ours:
            subprocess.run([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "rolltrace"], check=True)
        if environment.alone:
            pip(python, "--no-deps", *environment.alone)
    sys.stderr.write(f"{cached.name}: installed in {time.monotonic() - started:.0f} s\n")


def put_over(cached: Path, own: Path) -> None:
    """Make the layer of this checkout: an environment that sees the cached packages, with rolltrace as it is here."""
    described = f"{cached}\n{hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()}\n"
    ready = own / ".ready"
    if ready.exists() and ready.read_text() == described:
        return
    remove(own)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    (packages,) = cached.glob("lib/python*/site-packages")
    (own_packages,) = own.glob("lib/python*/site-packages")
    (own_packages / "cached.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    pip(own / "bin" / "python", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    ready.write_text(described)


def remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_unused(cache: Path) -> None:
    """Remove what nobody has used for long from the cache."""
    for ready in cache.glob("*/.ready"):
        with locked(cache / f"{ready.parent.name[: -_DIGEST - 1]}.lock"):
            if ready.exists() and ready.stat().st_mtime < time.time() - UNUSED_DAYS * 86_400:
                ready.unlink()
                shutil.rmtree(ready.parent)


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True, cwd=ROOT)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone, on this machine."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
