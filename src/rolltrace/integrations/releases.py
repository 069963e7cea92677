"""A framework as it is installed here: which release, what of it was changed in this process, and what did not fit.

Nothing of it may raise inside the framework: what is wrong is kept, logged once somebody traces, shown by the doctor.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from typing import Any

from rolltrace._frameworks import Verdict
from rolltrace._guard import logger
from rolltrace.integrations.after_import import after_import

_MAX_LOOK_SEC = 300


class Releases:
    """The releases of one framework that we know, and the one that is here."""

    def __init__(
        self,
        framework: str,
        package: str,
        tested: tuple[str, ...],
        *,
        option: str,
        with_those_between: bool = False,
        needs_oldest: bool = False,
        must_come_later: tuple[str, ...] = (),
    ) -> None:
        """`framework` as people call it, `tested` in order, `option` as of `rolltrace doctor`.

        `must_come_later`: if these modules were imported before us, others may hold the framework's own functions.
        """
        self.framework = framework
        self.package = package
        self.tested = tested
        self.option = option
        self.install = f"pip install '{package}=={tested[-1]}'"
        self._with_those_between = with_those_between
        self._needs_oldest = needs_oldest
        self._must_come_later = must_come_later
        self._warned = False
        self.changed: list[str] = []
        """The modules that were changed."""
        self.problems: dict[str, str] = {}
        """The modules that could not be changed: name -> why."""
        self.too_early: list[str] = []
        """The modules that were there before us."""

    @property
    def names(self) -> str:
        """Those that were tested with, in words."""
        return f"{self.tested[0]} to {self.tested[-1]}" if self._with_those_between else ", ".join(self.tested)

    def version(self) -> str | None:
        """Which release is installed; None if none is."""
        from importlib.metadata import PackageNotFoundError, version  # slow to load

        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def is_tested(self, version: str) -> bool:
        """Whether it is one of those tested with or, where these have the same seams, between them."""
        if self._with_those_between:
            return numbers(self.tested[0]) <= numbers(version) <= numbers(self.tested[-1])
        return version in self.tested

    def is_too_old(self, version: str) -> bool:
        return self._needs_oldest and numbers(version) < numbers(self.tested[0])

    def change(self, module: str, change: Callable[[Any], None]) -> bool:
        """Change a module right after it is imported, or at once; False if it was there before us."""

        def guarded(imported: Any) -> None:
            try:
                change(imported)
                self.changed.append(module)
            except Exception as error:
                self.problems[module] = f"{type(error).__name__}: {error}"

        in_time = after_import(module, guarded)
        if not in_time and module in self._must_come_later:
            self.too_early.append(module)
        return in_time

    def complaints(self) -> list[str]:
        """What is wrong in this process, in words."""
        version, newest = self.version(), self.tested[-1]
        if version is not None and self.is_too_old(version):
            oldest = self.tested[0]
            return [f"version {version} is too old, so rewards and more are not traced; needed: {oldest} or newer"]
        lines = [
            f"{name} is not as in {self.framework} {newest}, so part of it is not traced ({why})"
            for name, why in self.problems.items()
        ]
        lines += [f"{name} was imported before the plug-in, so part of it may not be traced" for name in self.too_early]
        if version is not None and not self.is_tested(version):
            lines.append(f"version {version} was not tested with this rolltrace; tested: {self.names}")
        return lines

    def warn(self) -> None:
        """Say once what is wrong, now that somebody traces."""
        if not self._warned:
            self._warned = True
            for line in self.complaints():
                logger.warning("%s: %s. See: rolltrace doctor %s", self.framework, line, self.option)

    def examine(self) -> Generator[Verdict, None, str | None]:
        """For the doctor: whether a release is here, and which. Returns it, if it is worth looking inside."""
        version = self.version()
        if version is None:
            what = f"{self.framework} is not installed for this Python"
            yield Verdict(False, what, f"{sys.executable} -m {self.install}")
        elif self.is_too_old(version):
            what = f"{self.framework} {version} is too old for this rolltrace, which was tested with {self.names}"
            yield Verdict(False, what, self.install)
            return None
        elif not self.is_tested(version):
            were = "were" if len(self.tested) > 1 else "was"
            what = f"{self.framework} {version} was not tested with this rolltrace, but {self.names} {were}"
            yield Verdict(False, what, self.install)
        elif self._with_those_between:
            yield Verdict(True, f"{self.framework} {version}; this rolltrace was tested with {self.names}")
        else:
            yield Verdict(True, f"{self.framework} {version}, with which this rolltrace was tested")
        return version

    def look_inside(self, statement: str, code: str) -> Generator[Verdict, None, Any]:
        """Run code in a process of its own, where the framework is imported as a training script would.

        Returns what the code prints last, as JSON; None if it could not, which is told. `statement` is what to try.
        """
        import json
        import subprocess

        command = [sys.executable, "-W", "ignore", "-c", code]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MAX_LOOK_SEC, check=False)
            return json.loads(done.stdout.rstrip().rpartition("\n")[2])
        except subprocess.TimeoutExpired:
            what = f"{statement} took over {_MAX_LOOK_SEC} seconds"
            yield Verdict(False, what, f"python -X importtime -c '{statement}'")
        except ValueError:
            last_line = done.stderr.strip().rpartition("\n")[2] or "no error message"
            yield Verdict(False, f"{self.framework} cannot be imported: {last_line}", f"python -c '{statement}'")
        return None


def numbers(version: str) -> list[int]:
    """A version as numbers that can be compared."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
