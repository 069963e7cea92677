"""Packages import from each other's front: a package's `__init__` is its contract."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rolltrace"
TOOL = Path(__file__).parents[1] / "tools" / "count_code.py"


def counting() -> Any:
    spec = importlib.util.spec_from_file_location("count_code", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_package_imports_a_file_of_another() -> None:
    past = [f"{each.file}:{each.line}: {each.target}" for each in counting().cross_imports() if each.past_init]
    assert past == [], "import the name from the package, and export it there"


LAZY = sorted(path.parent for path in SOURCE.rglob("__init__.py") if "\n_LATER, " in path.read_text())


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.name)
def test_no_name_that_is_loaded_later_is_also_a_file(folder: Path) -> None:
    """As soon as somebody loads that file, the name would mean the file."""
    package = importlib.import_module(".".join(["rolltrace", *folder.relative_to(SOURCE).parts]))
    files = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(package._LATER) & files == set()
