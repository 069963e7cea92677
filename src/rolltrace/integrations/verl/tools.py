"""Tools and interactions: what verl's own tracing misses.

verl decorates `BaseTool.execute` only, which every real tool overrides, and not the call of a function tool. An
exception in a tool becomes a text for the model, so that it can be seen only here, inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace._guard import caught
from rolltrace.integrations.verl.ops import traced

Wrap = Callable[[Any], Any]


def change_base(module: Any) -> None:
    """Change `verl.tools.base_tool`."""
    follow_subclasses(module.BaseTool, "execute")


def change_functions(module: Any) -> None:
    """Change `verl.tools.function_tool`."""
    module.FunctionTool.call = traced(module.FunctionTool.call, module.FunctionTool.call)


def change_interactions(module: Any) -> None:
    """Change `verl.interactions.base`, in the releases of verl that have it."""
    follow_subclasses(module.BaseInteraction, "generate_response")


def follow_subclasses(base: Any, method: str, wrap: Wrap | None = None) -> None:
    """Wrap a method of the class and of all its subclasses, those to come too; without `wrap` it is traced."""
    wrap = wrap or (lambda own: traced(own, own))
    theirs = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        if theirs is not None:
            theirs.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        _wrap_own(cls, method, wrap)

    base.__init_subclass__ = classmethod(__init_subclass__)
    waiting = [base]
    while waiting:
        cls = waiting.pop()
        _wrap_own(cls, method, wrap)
        waiting.extend(cls.__subclasses__())


def _wrap_own(cls: Any, method: str, wrap: Wrap) -> None:
    try:
        own = cls.__dict__.get(method)
        if callable(own) and not _is_traced(own):
            ours = wrap(own)
            ours.__rolltrace__ = True
            setattr(cls, method, ours)
    except Exception:
        caught(f"verl {method}")


def _is_traced(func: Any) -> bool:
    """Whether we, or the user with our own decorator, have done it."""
    of_module = getattr(func, "__globals__", {}).get("__name__")
    return getattr(func, "__rolltrace__", False) or of_module == "rolltrace.capture.op"
