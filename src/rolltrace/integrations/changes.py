"""What an integration changed in the modules of its framework, and what did not fit: nothing of it may raise there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace._guard import logger
from rolltrace.integrations.after_import import after_import


class Changes:
    """The changes of one integration in this process."""

    def __init__(self, framework: str, doctor: str) -> None:
        """`framework` as people call it, `doctor` as the option of `rolltrace doctor` that examines it."""
        self._framework = framework
        self._doctor = doctor
        self._warned = False
        self.changed: list[str] = []
        """The modules that were changed."""
        self.problems: dict[str, str] = {}
        """The modules that could not be changed: name -> why."""

    def make(self, module: str, change: Callable[[Any], None]) -> bool:
        """Change a module right after it is imported, or at once; False if it was there before us."""

        def guarded(imported: Any) -> None:
            try:
                change(imported)
                self.changed.append(module)
            except Exception as fault:
                self.problems[module] = f"{type(fault).__name__}: {fault}"

        return after_import(module, guarded)

    def warn_once(self, complaints: Callable[[], list[str]]) -> None:
        """Say once what is wrong, now that somebody traces."""
        if not self._warned:
            self._warned = True
            for line in complaints():
                logger.warning("%s: %s. See: rolltrace doctor %s", self._framework, line, self._doctor)
