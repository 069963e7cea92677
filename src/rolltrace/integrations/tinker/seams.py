"""Change another package's functions and methods, whoever holds them already.

A method is looked up on its class at each call, and a function of a module by whoever calls it there. What else holds a
function is a module that did `from x import f` before we came: such copies are replaced too.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from rolltrace._guard import caught

Wrap = Callable[[Any], Any]
"""Makes our function from theirs."""

_replaced: dict[int, tuple[Any, Any]] = {}
"""By the id of their function: theirs and ours."""


def replace(owner: Any, name: str, wrap: Wrap) -> None:
    """Put ours in the place of a function of a module, or of a method of a class.

    Raises:
        AttributeError: there is none of this name.
    """
    theirs = inspect.getattr_static(owner, name)
    ours = wrap(theirs)
    setattr(owner, name, ours)
    _replaced[id(theirs)] = (theirs, ours)


def replace_copies() -> None:
    """Replace what modules copied before we came."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or names.get("__name__") == __name__:
            continue
        for name, value in list(names.items()):
            pair = _replaced.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]


def replace_in_subclasses(base: Any, method: str, wrap: Wrap) -> None:
    """Put ours in the place of a method of the class and of all its subclasses, those to come too."""
    init_subclass = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        if init_subclass is not None:
            init_subclass.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        _replace_own(cls, method, wrap)

    base.__init_subclass__ = classmethod(__init_subclass__)
    waiting = [base]
    while waiting:
        cls = waiting.pop()
        _replace_own(cls, method, wrap)
        waiting.extend(cls.__subclasses__())


def _replace_own(cls: Any, method: str, wrap: Wrap) -> None:
    try:
        own = cls.__dict__.get(method)
        if inspect.isfunction(own) and not getattr(own, "__rolltrace__", False):
            ours: Any = functools.wraps(own)(wrap(own))
            ours.__rolltrace__ = True
            setattr(cls, method, ours)
    except Exception:
        caught(f"tinker {method}")
