"""Run a function right after a module is imported, before anybody else sees the module.

A framework is changed here before other modules copy its names: `from x import f` keeps whatever `f` is at that moment,
and `ray.remote` copies all methods of a class into one that it generates.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from rolltrace._guard import caught

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
    """Finds nothing itself: it asks the finders behind it, and stands before the loader that they return."""

    def __init__(self) -> None:
        self.wanted: dict[str, list[Change]] = {}
        self._searching = _Searching()

    def forget(self, name: str) -> list[Change]:
        changes = self.wanted.pop(name, [])
        if not self.wanted and self in sys.meta_path:
            sys.meta_path.remove(self)
        return changes

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        # Finders behind us may search again from the start, as those of wrapt do: whoever asked first watches.
        if fullname not in self.wanted or fullname in self._searching.names:
            return None
        self._searching.names.add(fullname)
        try:
            spec = _ask_behind(self, fullname, path, target)
        finally:
            self._searching.names.discard(fullname)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _WatchedLoader(spec.loader, self)  # type: ignore[assignment]
        return spec  # None: it is not there now, but may be installed later

    def imported(self, fullname: str, module: ModuleType) -> None:
        """Make the changes, each once, whoever else has searched for the module or loads it again."""
        for change in self.forget(fullname):
            try:
                change(module)
            except Exception:
                caught(f"change of {fullname}")


class _Searching(threading.local):
    def __init__(self) -> None:
        self.names: set[str] = set()
        """The modules that this thread is asking other finders for."""


class _WatchedLoader:
    """A loader that says when its module has been executed, and gives its place back before that.

    The loader itself is not changed: it may be shared by modules, or stand for another one. As long as it is watched it
    can be asked for everything else, its class included.
    """

    def __init__(self, loader: Any, watch: _Watch) -> None:
        self._loader = loader
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # while it is copied
            raise AttributeError(name)
        return getattr(self._loader, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._loader)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None and spec.loader is self:  # type: ignore[comparison-overlap]
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watch.imported(module.__name__ if spec is None else spec.name, module)


def _ask_behind(watch: _Watch, fullname: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
    """Ask the finders that Python would ask if we were not there: those before us have been asked."""
    finders = list(sys.meta_path)
    behind = finders[finders.index(watch) + 1 :] if watch in finders else finders
    for finder in behind:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
        if spec is not None:
            return spec
    return None


_watch = _Watch()
