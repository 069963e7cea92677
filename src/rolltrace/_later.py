"""Names that a package has, and loads only when somebody asks for one of them.

    _LATER, __getattr__ = load_later(__name__, {"search": "search_text Match"})

What is light stays light this way, and other packages still import from its front. For type checkers the same names
stand under `if TYPE_CHECKING`. A name must not be that of a file of the package: `tests/test_layers.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_later(package: str, files: Mapping[str, str]) -> tuple[dict[str, str], Callable[[str], Any]]:
    """File -> its names, as name -> file, and the `__getattr__` that loads them."""
    file_of = {name: file for file, names in files.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in file_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{file_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return file_of, load
