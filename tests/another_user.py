"""Run commands as somebody who does not own the store.

    python -m tests.another_user '[["ls", "STORE"], ...]'

Gives a line of JSON for each: exit code, stdout, stderr. As root it becomes `nobody` first; whoever is not root stays
who they are, for whom a folder without the right modes is as closed. Everything is imported before: the interpreter may
be in a folder that only its owner may enter.
"""

from __future__ import annotations

import io
import json
import os
import pkgutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

_NOBODY = 65534


class Done(NamedTuple):
    """How a command went."""

    code: int
    out: str
    err: str


def run_as_another(commands: list[list[str]]) -> list[Done]:
    """How these commands go, in their order."""
    words = [sys.executable, "-m", "tests.another_user", json.dumps(commands)]
    root = Path(__file__).parent.parent
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


def _import_everything() -> None:
    import rolltrace

    for module in pkgutil.walk_packages(rolltrace.__path__, "rolltrace."):
        with suppress(ImportError):
            if not module.name.endswith("__main__"):
                __import__(module.name)
    import duckdb
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.sql("SELECT json_extract('{}', '$.a')").to_arrow_table()
    pa.table({"a": [1]}).to_pylist()


def _main() -> None:
    _import_everything()
    from rolltrace.cli import main

    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    for words in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        sys.stdout.write(json.dumps([code, out.getvalue(), err.getvalue()]) + "\n")


if __name__ == "__main__":
    _main()
