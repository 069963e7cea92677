"""Loaded by every Python process below `rolltrace run`, because this folder stands first in its PYTHONPATH.

Such a process may be of any version and environment, with rolltrace or without: nothing here may fail, print or change
what the program sees. What `import sitecustomize` would have found without us is loaded too. A process that imports no
framework that somebody has an integration for does not load rolltrace, and pays nothing.
"""

import os
import sys

TYPE_CHECKING = False  # that of `typing` would have to be loaded
if TYPE_CHECKING:
    from typing import Any


def _load_the_other() -> None:
    """Take this folder out of the module search path, and load the sitecustomize behind it, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if not each or os.path.abspath(each) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as fault:
        if getattr(fault, "name", None) != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


class _FirstImport:
    """Installs all integrations when the program imports the first of these modules, before that is found."""

    def __init__(self, wanted: "Any") -> None:
        self._wanted = wanted

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self._wanted or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        _install()
        for finder in list(sys.meta_path):  # those that were added just now too: Python would not ask them any more
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None


def _install() -> None:
    try:
        from rolltrace.integrations import install_from_environment
    except ImportError:  # another environment, without rolltrace or with an old one
        return
    install_from_environment()


def _wait() -> None:
    if os.environ.get("ROLLTRACE_BACKEND", "") in ("", "off"):
        return
    wanted = [name for name in os.environ.get("_ROLLTRACE_WAITS_FOR", "").split(",") if name]
    if not wanted or any(name in sys.modules for name in wanted):
        _install()
    else:
        sys.meta_path.insert(0, _FirstImport(wanted))


_load_the_other()
_wait()
