"""Loaded by every Python process below `rolltrace run`, because this folder stands first in its PYTHONPATH.

Such a process may be of any version and environment, with rolltrace or without: nothing here may fail, print or change
what the program sees. What `import sitecustomize` would have found without us is loaded too.
"""

import os
import sys


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


def _install() -> None:
    if os.environ.get("ROLLTRACE_BACKEND", "") in ("", "off"):
        return
    try:
        from rolltrace.integrations import install_from_environment
    except ImportError:  # another environment, without rolltrace or with an old one
        return
    install_from_environment()


_load_the_other()
_install()
