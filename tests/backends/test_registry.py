"""Backends are found by entry point, ours and other people's alike."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from rolltrace import backends
from rolltrace.errors import BackendError, MissingExtraError


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
    assert told.startswith("no backend 'shiping'; installed: rolltrace, ")
    assert told.endswith("; did you mean 'shipping'?")


def test_one_unknown_name_among_several_is_enough() -> None:
    with pytest.raises(BackendError, match="no backend 'nowhere'"):
        backends.check(["rolltrace", "nowhere"])


def test_the_embedded_store_is_not_sent_to() -> None:
    with pytest.raises(BackendError, match="is the store itself"):
        backends.load("rolltrace")


def test_loading_an_unknown_backend_names_the_nearest() -> None:
    with pytest.raises(BackendError, match=r"no backend 'rolltrase'.* did you mean 'rolltrace'"):
        backends.load("rolltrase")


def test_loading_makes_the_backend(harbour: Any) -> None:
    assert hasattr(backends.load("shipping"), "send")


@pytest.fixture
def lacking(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The backend `shipping` needs a package that is not there."""
    (site / "shipping.py").write_text("import no_such_ship\nclass Backend: pass\n")
    monkeypatch.syspath_prepend(str(site))
    return site / "shipping-1.0.dist-info" / "METADATA"


def test_a_missing_package_is_an_error_with_the_install_line(lacking: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"needs the package 'no_such_ship'.*pip install no_such_ship"):
        backends.load("shipping")


def test_a_missing_package_is_noticed_before_anything_is_loaded(lacking: Path) -> None:
    requires = "Provides-Extra: shipping\nRequires-Dist: no-such-ship>=2; extra == 'shipping'\n"
    requires += "Requires-Dist: another>=1; extra == 'other'\nRequires-Dist: msgspec; extra == 'shipping'\n"
    lacking.write_text(lacking.read_text() + requires)
    with pytest.raises(MissingExtraError, match=r"needs the package 'no-such-ship'"):
        backends.check(["rolltrace", "shipping"])
    assert "shipping" not in sys.modules


def test_a_missing_package_of_ours_names_our_extra(lacking: Path) -> None:
    lacking.write_text(lacking.read_text().replace("Name: shipping", "Name: rolltrace"))
    (point,) = [each for each in entry_points(group="rolltrace.backends") if each.name == "shipping"]
    assert point.dist is not None
    with pytest.raises(MissingExtraError, match=r"pip install 'rolltrace\[shipping\]'"):
        backends.load("shipping")
