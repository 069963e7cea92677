"""`rolltrace proxy` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def proxying(
    upstream: str, store: Path, *options: str, variables: dict[str, str] | None = None, stderr: IO[str] | None = None
) -> Iterator[str]:
    """Gives its address; it ends as Ctrl-C would end it."""
    command = [sys.executable, "-m", "rolltrace", "proxy", "--upstream", upstream, "--port", "0", "--store", str(store)]
    process = subprocess.Popen(
        [*command, "--project", "agents", *options],
        stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **(variables or {})},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
