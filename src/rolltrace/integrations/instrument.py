"""What an instrument is: a change of one package, made once its module is imported, and taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rolltrace._guard import logger
from rolltrace.integrations.after_import import after_import, not_after_import

Undo = Callable[[], None]
IN_USE: list[Instrument] = []
"""Those that are installed in this process, by whoever it was."""


class Instrument:
    """One package. `change` gets its module and returns what takes the change back.

    It is also what `rolltrace run` calls in each process: it must not import its package, but waits for it.
    """

    def __init__(self, package: str, module: str, change: Callable[[Any], Undo]) -> None:
        """`package` as it is imported; `module`: the one that is changed, which the package imports itself."""
        self.package = package
        self.waits_for = (package,)
        self._module = module
        self._change = change
        self._undo: Undo | None = None
        self._is_on = False
        self._lock = threading.RLock()

    def __call__(self) -> None:
        self.install()

    def install(self) -> None:
        """Change the package now if it is loaded, else as soon as it is. Done once."""
        with self._lock:
            if self._is_on:
                return
            self._is_on = True
            IN_USE.append(self)
        after_import(self._module, self._made)

    def uninstall(self) -> None:
        """Put back the very objects that were there before."""
        with self._lock:
            not_after_import(self._module, self._made)
            if self._is_on:
                self._is_on = False
                IN_USE.remove(self)
            undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def _made(self, module: Any) -> None:
        """A package that does not fit is told of, and works as it did: this runs inside somebody's import."""
        try:
            undo = self._change(module)
        except Exception as error:
            logger.warning(
                "%s is not traced: its module %s is not as expected (%s: %s)",
                self.package, self._module, type(error).__name__, error,
            )  # fmt: skip
            return
        with self._lock:
            self._undo = undo


def replace(owner: Any, name: str, new: Any) -> Undo:
    """Set an attribute of a class or a module; what is returned puts back what its own dict held."""
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, new)

    def undo() -> None:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return undo
