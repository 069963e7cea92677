"""Modules of pyarrow that are loaded when they are first used: most questions to a small store need none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


pc: Any = _Later("pyarrow.compute")
pq: Any = _Later("pyarrow.parquet")
