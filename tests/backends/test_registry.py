"""Backends are found by entry point, ours and other people's alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace import backends
from rolltrace.errors import BackendError


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with an installed package that brings a backend named `shipping`."""
    info = tmp_path / "shipping-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shipping\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rolltrace.backends]\nshipping = shipping:Backend\n")
    return tmp_path


def run(program: str, site: Path, store: Path) -> str:
    prelude = f"import sys; sys.path.insert(0, {str(site)!r}); store = {str(store)!r}\n"
    done = subprocess.run([sys.executable, "-c", prelude + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_embedded_store_is_always_installed() -> None:
    assert backends.installed()[0] == "rolltrace"
    backends.check(["rolltrace"])


def test_a_third_partys_backend_can_be_chosen(site: Path, tmp_path: Path) -> None:
    program = "import rolltrace; rolltrace.init('p', 'e', ['rolltrace', 'shipping'], store=store)\n"
    told = run(program + "print(rolltrace.RolloutTraceConfig.get_backend())", site, tmp_path)
    assert told == "rolltrace,shipping"


def test_an_unknown_backend_is_an_error_that_lists_the_installed_ones(site: Path, tmp_path: Path) -> None:
    program = (
        "import rolltrace\n"
        "try: rolltrace.init('p', 'e', 'shiping', store=store)\n"
        "except rolltrace.RolltraceError as error: print(error)\n"
    )
    told = run(program, site, tmp_path)
    assert told == "no backend 'shiping'; installed: rolltrace, shipping; did you mean 'shipping'?"


def test_one_unknown_name_among_several_is_enough() -> None:
    with pytest.raises(BackendError, match="no backend 'nowhere'"):
        backends.check(["rolltrace", "nowhere"])
