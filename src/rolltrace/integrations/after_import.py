"""Run a function right after a module is imported, before anybody else sees the module.

A framework is changed here before other modules copy its names: `from x import f` keeps whatever `f` is at that moment,
and `ray.remote` copies all methods of a class into one that it generates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

Change = Callable[[Any], None]
F = TypeVar("F", bound=Callable[..., Any])


def after_import(name: str, change: Change) -> bool:
    """Call `change(module)` once `name` has been imported; at once if it has been already.

    Returns:
        Whether we are in time: False if the module was there before.
    """
    loaded = sys.modules.get(name)
    if loaded is not None:
        change(loaded)
        return False
    _watch.wanted.setdefault(name, []).append(change)
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)
    return True


def not_after_import(name: str, change: Change) -> None:
    """Take back an `after_import` that still waits."""
    waiting = _watch.wanted.get(name, [])
    if change in waiting:
        waiting.remove(change)
        if not waiting:
            _watch.forget(name)


def waiting_for(*modules: str) -> Callable[[F], F]:
    """Says of the `install` of an integration that it has nothing to do before one of these modules is imported.

    `rolltrace run` then does not even load it before. They are top modules: `verl`, not `verl.utils`.
    """

    def mark(install: F) -> F:
        install.waits_for = modules  # type: ignore[attr-defined]
        return install

    return mark


class _Watch(MetaPathFinder):
    """Finds nothing itself: it asks the others, and has a word with the loader that they give."""

    def __init__(self) -> None:
        self.wanted: dict[str, list[Change]] = {}

    def forget(self, name: str) -> None:
        self.wanted.pop(name, None)
        if not self.wanted and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        changes = self.wanted.get(fullname)
        if changes is None:
            return None
        spec = _ask_others(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec  # it is not there, now: somebody may install it yet
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self.forget(fullname)
            for change in changes:
                change(module)

        # On this one loader, which stays what it is: `inspect` and others look at its class.
        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _ask_others(fullname: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if isinstance(finder, _Watch) or find is None:
            continue
        spec: ModuleSpec | None = find(fullname, path, target)
        if spec is not None:
            return spec
    return None


_watch = _Watch()
