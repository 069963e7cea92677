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
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
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


def _see_to_summary() -> None:
    """At the end of the program, have `rolltrace.cli.run_summary` say what was recorded of it.

    Its first process does so; those that it started tell it by a file which libraries they imported.
    """
    first, python, since_ns, notes, modules = os.environ.get("_ROLLTRACE_SUMMARY", ",,,,").split(",", 4)
    if not first or os.environ.get("ROLLTRACE_BACKEND", "") in ("", "off"):
        return
    import atexit

    def imported() -> "list[str]":
        return [name for name in modules.split(",") if name in sys.modules]

    def tell_first() -> None:
        with open(os.open(notes, os.O_WRONLY | os.O_APPEND), "w") as file:  # it must be there: made by the first
            file.write("".join(name + "\n" for name in imported()))

    def summarise() -> None:
        with open(notes) as file:
            told = set(file.read().split())
        os.unlink(notes)
        settings = getattr(sys.modules.get("rolltrace._runtime"), "last_settings", None)
        default = os.environ.get("ROLLTRACE_STORE") or os.path.join("~", ".rolltrace")
        import json
        import subprocess

        ended = {
            "store": os.path.expanduser(str(getattr(settings, "store", default))),
            "run": getattr(settings, "run", None),
            "since_ns": int(since_ns),
            "modules": sorted(told.union(imported())),
        }
        silent = {name: value for name, value in os.environ.items() if not name.startswith(("_ROLLTRACE", "ROLLTRACE"))}
        command = [python, "-m", "rolltrace.cli.run_summary", json.dumps(ended)]
        subprocess.run(command, env=silent, stdout=subprocess.DEVNULL, timeout=60, check=False)

    def at_exit() -> None:
        try:
            if str(os.getpid()) == first:
                summarise()
            elif os.path.exists(notes):
                tell_first()
        except Exception:  # a program must not end otherwise because of us
            pass

    if str(os.getpid()) == first:
        try:
            os.close(os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return
    atexit.register(at_exit)  # the first, so it runs after all others: what they record is in the store


_load_the_other()
_see_to_summary()
_wait()
