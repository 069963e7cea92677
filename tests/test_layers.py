"""Packages import from each other's front: a package's `__init__` is its contract."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

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
